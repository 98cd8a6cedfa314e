-- Make the run's hash, or make it anew when Redis lost its fields. Then the living workers renew
-- their claims, and no number is handed out before they had time to. An incarnation begins with
-- the time when it was made: one that is older than a worker's came out of a backup.

local incarnation, maker = unpack(redis.call('HMGET', RUN, 'incarnation', 'maker'))
if incarnation and (incarnation > call.lost or maker == call.maker) then
  return encoded({ made = maker == call.maker, incarnation = incarnation })
end

local function born(one)
  return one and tonumber(string.sub(one, 1, 14), 16) or 0
end

local made = math.max(math.floor(now * 1000000), born(incarnation) + 1, born(call.lost) + 1)
incarnation = string.format('%014x', made) .. '-' .. call.maker
redis.call('HSET', RUN, 'incarnation', incarnation, 'maker', call.maker)
redis.call('HSET', RUN, 'opens', text(now + call.settle))
redis.call('HSETNX', RUN, 'waiting', 0)
redis.call('HSET', RUN, 'given', call.given)
if call.settle > 0 or call.given > 0 then
  redis.call('HSET', RUN, 'again', 1) -- the depths of offered numbers are lost
end
redis.call('DEL', REPLIES)
return encoded({ made = true, incarnation = incarnation })
