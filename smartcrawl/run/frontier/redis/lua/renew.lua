-- A worker is alive: what it holds stays its own. What Redis lost is taken from its word, unless
-- another one has it or had it since.

local broken = gap()
if broken == 'lost' then
  return told({ gap = broken })
end

local incarnation = redis.call('HGET', RUN, 'incarnation')
local own = incarnation .. '.'
local answer, touched = { incarnation = incarnation, gone = {} }, {}

for _, each in ipairs(call.held) do
  local number, token, host, depth, score, flies = unpack(each)
  local claim = held(number)
  local kept = claim and claim.token == token
  if not kept and string.sub(token, 1, #own) ~= own then
    if claim then
      kept = claim.token < token -- of two who were lost the later one is right
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
      land(number, host) -- who was believed before may have told otherwise
    end
    redis.call('HSETNX', LAST_CRAWL, host, text(now))
    touched[host] = true
  else
    table.insert(answer.gone, { number, token })
  end
end
sort_hosts(touched)
redis.call('ZADD', WORKERS, text(now), call.worker)
return told(answer)
