-- What waits and what is held, at one moment.

if gap() == 'lost' then
  return told({ gap = 'lost' })
end
local reaped = reap()
return told({
  reaped = reaped,
  waiting = tonumber(redis.call('HGET', RUN, 'waiting')),
  claimed = redis.call('HLEN', CLAIMS),
  ready = redis.call('SCARD', READY),
  delayed = redis.call('ZCARD', DELAYED),
  again = redis.call('HEXISTS', RUN, 'again') == 1,
  spent = is_spent(),
  workers = redis.call('ZCOUNT', WORKERS, text(now - call.lease), '+inf'),
})
