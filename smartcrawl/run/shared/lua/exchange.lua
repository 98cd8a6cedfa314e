-- One call a page: it ends claims, offers found numbers, and claims numbers that may be asked now.
-- A repeated call, whose reply was lost on the way, gets the same answer again.

local broken = gap()
if broken then
  return encoded({ gap = broken })
end

local before = redis.call('HGET', REPLIES, call.worker)
local last = before and object(before, 'answer') or { call = 0 }
if last.call == call.call then
  return last.answer
elseif last.call ~= call.call - 1 then
  return encoded({ gap = 'lost' }) -- Redis came back with older data: this worker's calls are lost
end

local answer = { malformed = 0, reaped = reap(), stale = {}, news = {}, shallower = {}, claims = {} }
local touched = {}

-- Return a claim if it is still this worker's; else report it as stale.
local function own(number, token)
  local claim = claim_of(number)
  if claim and claim.token == token then
    touched[claim.host] = true
    return claim
  end
  table.insert(answer.stale, { number, token })
  return nil
end

for _, each in ipairs(call.landed) do
  local claim = own(each[1], each[2])
  if claim then
    land(each[1], claim.host)
    if redis.call('HGET', READERS, claim.host) == each[1] then
      redis.call('HSET', READERS, claim.host, '') -- robots.txt was not needed, or not available
    end
  end
end
for _, each in ipairs(call.done) do
  local claim = own(each[1], each[2])
  if claim then
    let_go(each[1], claim.host)
  end
end
for _, each in ipairs(call.released) do
  local claim = own(each[1], each[2])
  if claim then
    give_back(each[1], claim)
  end
end

for _, each in ipairs(call.found) do
  local number, host, depth = each[1], each[2], each[3]
  local known = depth_of(number)
  if not known then
    set_depth(number, depth)
    put(number, host, score_of(each[4], each[5]))
    table.insert(answer.news, number)
    touched[host] = true
  elseif depth < known then
    set_depth(number, depth)
    redis.call('SADD', LOWERED, number)
    table.insert(answer.shallower, number)
  end
end
sort_hosts(touched)

for _, host in ipairs(redis.call('ZRANGEBYSCORE', DELAYED, '-inf', text(now), 'LIMIT', 0, 1000)) do
  sort_host(host)
end

local opens = tonumber(redis.call('HGET', RUN, 'opens'))
while now >= opens and #answer.claims < call.want and not is_spent() do
  local host = redis.call('SRANDMEMBER', READY)
  if not host then
    break
  end
  local first = {}
  if turn_of(host) == 0 then -- another run may have asked it meanwhile
    first = redis.call('ZPOPMIN', waiting_of(host))
  end
  local number, score = first[1], first[2]
  if number and not is_number(number) then
    answer.malformed = answer.malformed + 1 -- it is removed, and was never counted as waiting
  elseif number then
    redis.call('HINCRBY', RUN, 'waiting', -1)
    local down = redis.call('SISMEMBER', DOWN, host) == 1
    local token = redis.call('HINCRBY', RUN, 'tokens', 1)
    token = call.incarnation .. string.format('.%012d', token) -- tokens sort in the order of drawing
    hold(number, host, score, token)
    redis.call('HINCRBY', RUN, 'given', 1)
    if not down then
      fly(number, host)
      redis.call('HSET', LAST_CRAWL, host, text(now))
    end
    local parked = redis.call('HEXISTS', meta_of(host), 'parked_until') == 1
    local depth = depth_of(number) or 0
    local first = not down and is_unread(host) or false
    if first then
      redis.call('HSET', READERS, host, number)
    end
    table.insert(answer.claims, { number, host, depth, token, score, down, parked, first })
  end
  sort_host(host)
end

redis.call('ZADD', WORKERS, text(now), call.worker)
if is_spent() then
  answer.spent = true
elseif now < opens then
  answer.wait = opens - now
elseif redis.call('SCARD', READY) > 0 then
  answer.wait = 0
else
  local next_turn = redis.call('ZRANGE', DELAYED, 0, 0, 'WITHSCORES')
  answer.wait = next_turn[2] and math.max(0, tonumber(next_turn[2]) - now) or nil
end
local reply = encoded(answer)
redis.call('HSET', REPLIES, call.worker, cjson.encode({ call = call.call, answer = reply }))
return reply
