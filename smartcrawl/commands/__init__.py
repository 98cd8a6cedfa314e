"""The commands of the product; ``scrapy COMMAND --help`` explains each."""
