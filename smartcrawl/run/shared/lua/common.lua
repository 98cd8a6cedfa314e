-- The beginning of every script. KEYS[1]: the run's hash; ARGV: the prefix of the run's keys, and
-- the call as JSON. Times are those of Redis's clock, in Unix seconds; no worker's clock counts.

local RUN, prefix, call = KEYS[1], ARGV[1], cjson.decode(ARGV[2])
local clock = redis.call('TIME')
local now = tonumber(clock[1]) + tonumber(clock[2]) / 1000000

local READY = prefix .. 'ready_domains' -- set: hosts with waiting numbers that may be asked now
local DELAYED = prefix .. 'delayed_domains' -- sorted set: the other hosts with waiting numbers, by when to look again
local DOWN = prefix .. 'down_domains' -- set: hosts that get no more requests in this run
local CLAIMS = prefix .. 'claims' -- hash: number -> JSON of its claim
local LEASES = prefix .. 'leases' -- sorted set: claimed numbers, by the end of their leases
local REPLIES = prefix .. 'replies' -- hash: worker -> JSON of its last call and the answer
local WORKERS = prefix .. 'workers' -- sorted set: workers, by their last call
local DEEP = prefix .. 'deep' -- hash: number -> depth, for depths from 254 on
local LOWERED = prefix .. 'lowered' -- set: numbers that were offered again at a smaller depth
-- hash: host -> the number under whose claim its robots.txt is read in this run; empty: done
local READERS = prefix .. 'readers'
local LAST_CRAWL = 'domain:last_crawl' -- hash: host -> time of its last request, of any run

local CHUNK = 4096 -- numbers in one string of depths
local RECHECK = 0.25 -- seconds; a host may be full of another run's requests
local LONGEST = 5 -- seconds until a host is looked at again: another run may have freed it
local STEP = 0.000001 -- least seconds between two discoveries, so that scores keep their order

local function text(time)
  return string.format('%.6f', time)
end

-- Other programs may write to this Redis, too. Values that no worker wrote are ignored.

local function is_number(member)
  return #member == 10 and not string.find(member, '%D') and tonumber(member) <= 4294967295
end

local function amount(value)
  return tonumber(value) or 0
end

-- Return the object of a JSON text if the named fields are texts; else nil.
local function object(json, ...)
  local sound, found = pcall(cjson.decode, json or '')
  if not sound or type(found) ~= 'table' then
    return nil
  end
  for _, name in ipairs({ ... }) do
    if type(found[name]) ~= 'string' then
      return nil
    end
  end
  return found
end

local function waiting_of(host)
  return prefix .. 'frontier:' .. host
end

local function flying_of(host)
  return 'domain:flying:' .. host
end

local function meta_of(host)
  return 'domain:meta:' .. host
end

-- Depths: one byte a number; 0: not reached.

local function place(number)
  local n = tonumber(number)
  return prefix .. 'reached:' .. math.floor(n / CHUNK), n % CHUNK
end

local function depth_of(number)
  local key, at = place(number)
  local byte = redis.call('GETRANGE', key, at, at)
  if byte == '' or byte == '\0' then
    return nil
  end
  local depth = string.byte(byte) - 1
  if depth == 254 then
    return tonumber(redis.call('HGET', DEEP, number))
  end
  return depth
end

local function set_depth(number, depth)
  local key, at = place(number)
  redis.call('SETRANGE', key, at, string.char(math.min(depth, 254) + 1))
  if depth >= 254 then
    redis.call('HSET', DEEP, number, depth)
  else
    redis.call('HDEL', DEEP, number)
  end
end

-- Hosts: in READY, in DELAYED, or in neither when no number of theirs waits.

-- Whether no worker has read the robots.txt of a host in this run, as far as Redis knows.
local function is_unread(host)
  return call.robots and redis.call('HGET', READERS, host) ~= ''
end

-- When a host may be asked: 0 for now, else when to look again.
local function turn_of(host)
  if redis.call('SISMEMBER', DOWN, host) == 1 then
    return 0 -- its requests end without being sent
  end
  local reader = call.robots and redis.call('HGET', READERS, host)
  if reader and reader ~= '' and redis.call('HEXISTS', CLAIMS, reader) == 1 then
    return now + RECHECK -- its robots.txt is not read yet
  end
  local meta = redis.call('HMGET', meta_of(host), 'crawl_delay', 'pace', 'paused_until',
    'parked_until', 'single_until')
  local last = amount(redis.call('HGET', LAST_CRAWL, host))
  if last > now then -- Redis's clock was set back
    last = now
    redis.call('HSET', LAST_CRAWL, host, text(now))
  end
  local least = call.delays and call.delays[host] or 0 -- longer ones of single hosts
  local delay = math.max(call.delay, least, amount(meta[1]) / 1000, amount(meta[2]) / 1000)
  local at = math.max(last + delay, amount(meta[3]), amount(meta[4]))
  if at > now then
    return math.min(at, now + LONGEST)
  end
  redis.call('ZREMRANGEBYSCORE', flying_of(host), '-inf', text(now))
  local is_single = meta[4] or amount(meta[5]) > now -- parked: it gets one probe at a time
  local most = is_single and 1 or call.per_host
  if redis.call('ZCARD', flying_of(host)) >= most then
    return now + RECHECK
  end
  return 0
end

local function sort_host(host)
  if redis.call('EXISTS', waiting_of(host)) == 0 then
    redis.call('SREM', READY, host)
    redis.call('ZREM', DELAYED, host)
    return
  end
  local at = turn_of(host)
  if at == 0 then
    redis.call('SADD', READY, host)
    redis.call('ZREM', DELAYED, host)
  else
    redis.call('SREM', READY, host)
    redis.call('ZADD', DELAYED, text(at), host)
  end
end

local function sort_hosts(hosts)
  for host in pairs(hosts) do
    sort_host(host)
  end
end

-- Waiting numbers.

local function put(number, host, score)
  redis.call('HINCRBY', RUN, 'waiting', redis.call('ZADD', waiting_of(host), score, number))
end

-- Remove a number from the waiting ones; return whether it was there.
local function take_out(number, host)
  local there = redis.call('ZREM', waiting_of(host), number) == 1
  if there then
    redis.call('HINCRBY', RUN, 'waiting', -1)
  end
  return there
end

-- The score of an address: priority * 1000000 + time of discovery, which increases each time.
local function score_of(priority, since)
  if since then
    return string.format('%.17g', priority * 1000000 + since)
  end
  local discovered = math.max(now, tonumber(redis.call('HGET', RUN, 'clock') or 0) + STEP)
  redis.call('HSET', RUN, 'clock', text(discovered))
  return string.format('%.17g', priority * 1000000 + discovered)
end

-- Claims.

local function claim_of(number)
  return object(redis.call('HGET', CLAIMS, number), 'worker', 'token', 'host', 'score')
end

local function fly(number, host)
  redis.call('ZADD', flying_of(host), text(now + call.lease), prefix .. number)
  redis.call('EXPIRE', flying_of(host), math.ceil(2 * call.lease))
end

local function land(number, host)
  redis.call('ZREM', flying_of(host), prefix .. number)
end

local function hold(number, host, score, token)
  local claim = { worker = call.worker, token = token, host = host, score = score }
  redis.call('HSET', CLAIMS, number, cjson.encode(claim))
  redis.call('ZADD', LEASES, text(now + call.lease), number)
end

local function let_go(number, host)
  redis.call('HDEL', CLAIMS, number)
  redis.call('ZREM', LEASES, number)
  land(number, host)
end

local function give_back(number, claim)
  let_go(number, claim.host)
  redis.call('HINCRBY', RUN, 'given', -1)
  put(number, claim.host, claim.score)
end

-- Give back the numbers whose leases ended; return their count.
local function reap()
  local dead = redis.call('ZRANGEBYSCORE', LEASES, '-inf', text(now), 'LIMIT', 0, 1000)
  local hosts = {}
  for _, number in ipairs(dead) do
    local claim = claim_of(number)
    if claim then
      give_back(number, claim)
      hosts[claim.host] = true
    else
      redis.call('HDEL', CLAIMS, number)
      redis.call('ZREM', LEASES, number)
    end
  end
  sort_hosts(hosts)
  return #dead
end

-- Compare the incarnation with this worker's: "lost", "renewed" by another worker, or nil.
local function gap()
  local incarnation = redis.call('HGET', RUN, 'incarnation')
  if not incarnation or incarnation < call.incarnation then
    return 'lost'
  end
  return incarnation ~= call.incarnation and 'renewed' or nil
end

-- Whether the run's limit of numbers was handed out.
local function is_spent()
  return call.most > 0 and tonumber(redis.call('HGET', RUN, 'given') or 0) >= call.most
end

local function encoded(answer)
  return cjson.encode(answer)
end
