"""Pages as a browser shows them: Chromium over its pipe, without a network of its own.

``launch`` starts it confined, ``pipe`` speaks its protocol, ``page`` renders one page, and ``dom``
makes markup of what it shows. Each request of a page is answered by a function of the caller.
"""
