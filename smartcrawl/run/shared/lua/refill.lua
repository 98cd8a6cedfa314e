-- Add the waiting and the visited numbers of the registry that Redis lacks. Claims stay with their
-- workers, so it may be called at any time, and again.

local broken = gap()
if broken then
  return encoded({ gap = broken })
end

local added, touched = 0, {}

-- The time of a host's last request may be lost as well: then its whole delay begins now.
local function as_asked(host)
  redis.call('HSETNX', LAST_CRAWL, host, text(now))
end

for _, each in ipairs(call.visited) do
  local number, host, depth = each[1], each[2], each[3]
  local known = depth_of(number)
  if not known or depth < known then
    set_depth(number, depth)
  end
  if take_out(number, host) then
    touched[host] = true
  end
  as_asked(host)
end
for _, each in ipairs(call.waiting) do
  local number, host, depth = each[1], each[2], each[3]
  local known = depth_of(number)
  if not known or depth < known then
    set_depth(number, depth)
  end
  local waits = known and redis.call('ZSCORE', waiting_of(host), number)
  if not waits and redis.call('HEXISTS', CLAIMS, number) == 0 then
    put(number, host, score_of(each[4], each[5]))
    added = added + 1
    touched[host] = true
  end
  as_asked(host)
end
sort_hosts(touched)
return encoded({ added = added })
