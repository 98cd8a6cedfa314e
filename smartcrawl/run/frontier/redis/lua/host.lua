-- What a host asks for, and what is known of it; for all runs, except that it is down.

local host, meta = call.host, meta_of(call.host)
local answer = {}

if call.act == 'pause' then
  local until_now = amount(redis.call('HGET', meta, 'paused_until'))
  if now + call.seconds > until_now then -- a longer pause that is in force stays
    redis.call('HSET', meta, 'paused_until', text(now + call.seconds))
  end
elseif call.act == 'park' then
  local parked = redis.call('HMGET', meta, 'parked_until', 'parked')
  answer.times = amount(parked[2])
  if amount(parked[1]) <= now then -- what was asked before it was parked changes nothing
    answer.times = redis.call('HINCRBY', meta, 'parked', 1)
    redis.call('HSET', meta, 'parked_until', text(now + call.seconds))
  end
elseif call.act == 'unpark' then
  redis.call('HDEL', meta, 'parked_until', 'parked')
elseif call.act == 'down' then
  redis.call('SADD', DOWN, host)
elseif call.act == 'pace' then
  redis.call('HSET', meta, 'pace', call.milliseconds)
elseif call.act == 'robots' then
  local delay = call.milliseconds
  if redis.call('HGET', READERS, host) == '' then -- another port of it may want a longer one
    delay = math.max(delay, amount(redis.call('HGET', meta, 'crawl_delay')))
  end
  redis.call('HSET', meta, 'crawl_delay', delay)
  redis.call('HSET', READERS, host, '')
  if call.asked then
    redis.call('HSET', meta, 'last_robots_fetch', math.floor(now))
    redis.call('HSET', LAST_CRAWL, host, text(now))
  end
end
sort_host(host)
return told(answer)
