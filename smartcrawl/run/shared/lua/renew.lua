-- Renew the claims of a living worker. Claims that Redis lost are restored from the call, unless
-- another worker has the number, or had it since.

local broken = gap()
if broken == 'lost' then
  return encoded({ gap = broken })
end

local incarnation = redis.call('HGET', RUN, 'incarnation')
local own = incarnation .. '.'
local answer, touched = { incarnation = incarnation, gone = {} }, {}

for _, each in ipairs(call.claims) do
  local number, token, host, depth, score, flies = unpack(each)
  local claim = claim_of(number)
  local kept = claim and claim.token == token
  if not kept and string.sub(token, 1, #own) ~= own then
    if claim then
      kept = claim.token < token -- of two claims that Redis lost the later one counts
    elseif take_out(number, host) then
      kept = true
    elseif not depth_of(number) then
      set_depth(number, depth)
      kept = true
    end
  end
  if kept then
    if not claim then
      redis.call('HINCRBY', RUN, 'given', 1)
    end
    hold(number, host, score, token)
    if flies then
      fly(number, host)
    else
      land(number, host) -- another claim, restored before, may have been in flight
    end
    redis.call('HSETNX', LAST_CRAWL, host, text(now))
    touched[host] = true
  else
    table.insert(answer.gone, { number, token })
  end
end
sort_hosts(touched)
redis.call('ZADD', WORKERS, text(now), call.worker)
return encoded(answer)
