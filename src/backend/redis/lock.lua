-- A part after common.lua: reads the lock. Its value is ADDED:TIME@OWNER; any other value counts as another owner's.
-- Gives the later parts: lock_key, caller, value, added, owner, ahead, is_ahead, is_over, is_wrong.
local lock_key = KEYS[1]
-- The owner that makes the call. `owner` is the one that the lock's value names, and `added` the time there.
local caller = ARGV[1]
local value = redis.call('GET', lock_key)
local added, owner
if value then
  added, owner = string.match(value, '^ADDED:([^@]*)@(.*)$')
end
-- The server's clock was ahead when the lock was acquired. Another program's time is by that program's clock, and perhaps of its
-- zone; shedlock's owners have three parts or more. If the owner has ended, the lock was to be kept until a time that never came:
-- it counts as free.
local ahead = added and (parse(added) or 0) - now or 0
local is_ahead = ahead > (string.find(owner or '', ':.*:') and 60000 or 50400000)
local is_over = is_ahead and string.find(owner, ':ended$')
-- Whether the end of a held lock, whose key has so long left, does not count: the clock was ahead by more than the time that it
-- was acquired for. Servers that stand for one, and whose clocks differ by less, would otherwise shorten the locks of each other.
local function is_wrong(left)
  return is_ahead and ahead > left - ahead
end
