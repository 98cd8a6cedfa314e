-- Count the waiting and the claimed numbers, at one moment.

if gap() == 'lost' then
  return encoded({ gap = 'lost' })
end
local reaped = reap()
return encoded({
  reaped = reaped,
  waiting = tonumber(redis.call('HGET', RUN, 'waiting')),
  claimed = redis.call('HLEN', CLAIMS),
  ready = redis.call('SCARD', READY),
  delayed = redis.call('ZCARD', DELAYED),
  again = redis.call('HEXISTS', RUN, 'again') == 1,
  spent = is_spent(),
  workers = redis.call('ZCOUNT', WORKERS, text(now - call.lease), '+inf'),
})
