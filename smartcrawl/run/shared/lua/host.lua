-- Update the record of a host, for all runs; only "down" is for this run.

local host, meta = call.host, meta_of(call.host)
local answer = {}

if call.act == 'pause' then
  local times = redis.call('HMGET', meta, 'paused_until', 'single_until')
  local until_now, single = amount(times[1]), amount(times[2])
  if now + call.seconds > until_now then -- a longer pause that is in force stays
    redis.call('HSET', meta, 'paused_until', text(now + call.seconds))
    local rest = single - math.max(now, until_now)
    if rest > 0 then -- the time with one request is that after the pause
      redis.call('HSET', meta, 'single_until', text(now + call.seconds + rest))
    end
  end
elseif call.act == 'park' then
  local parked = redis.call('HMGET', meta, 'parked_until', 'parked')
  answer.times = amount(parked[2])
  if amount(parked[1]) <= now then -- requests sent before it was parked change nothing
    answer.times = redis.call('HINCRBY', meta, 'parked', 1)
    redis.call('HSET', meta, 'parked_until', text(now + call.seconds))
  end
elseif call.act == 'unpark' then
  redis.call('HDEL', meta, 'parked_until', 'parked')
elseif call.act == 'down' then
  redis.call('SADD', DOWN, host)
elseif call.act == 'pace' then
  redis.call('HSET', meta, 'pace', call.milliseconds)
elseif call.act == 'single' then
  local times = redis.call('HMGET', meta, 'paused_until', 'single_until')
  local start = math.max(now, amount(times[1])) -- nothing is measured in a pause
  local single = math.max(start + call.seconds, amount(times[2]))
  redis.call('HSET', meta, 'single_until', text(single))
elseif call.act == 'robots' then
  local delay = call.milliseconds
  if redis.call('HGET', READERS, host) == '' then -- another port may have a longer one
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
return encoded(answer)
