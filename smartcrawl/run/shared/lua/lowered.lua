-- Take numbers whose depth became smaller since they were offered: so did that of their links.

local broken = gap()
if broken then
  return encoded({ gap = broken })
end
local numbers = {}
for _, member in ipairs(redis.call('SPOP', LOWERED, call.count)) do
  if is_number(member) then
    table.insert(numbers, member)
  end
end
return encoded({ numbers = numbers })
