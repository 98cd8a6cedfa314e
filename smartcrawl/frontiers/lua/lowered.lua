-- Take numbers whose depth became smaller since they were offered: what they lead to lies nearer.

local broken = gap()
if broken then
  return told({ gap = broken })
end
return told({ numbers = redis.call('SPOP', LOWERED, call.count) })
