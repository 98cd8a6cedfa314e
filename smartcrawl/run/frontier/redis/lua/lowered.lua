-- Take numbers whose depth became smaller since they were offered: what they lead to lies nearer.

local broken = gap()
if broken then
  return told({ gap = broken })
end
local numbers = {}
for _, member in ipairs(redis.call('SPOP', LOWERED, call.count)) do
  if is_number(member) then
    table.insert(numbers, member)
  end
end
return told({ numbers = numbers })
