-- The last part of CHANGE, after lock.lua: changes a lock's owner and end. Uses: common.lua's now, iso; lock.lua's lock_key,
-- value, owner, is_ahead, is_over.
-- Answers 1, also if a repeated change finds its work done, or 0 if another owner holds the lock or it is free.
local from, to = ARGV[1], ARGV[2]
-- The milliseconds that the lock stays held from now on; 0 frees it.
local left_ms = ARGV[3]
-- A value in another form counts as its owner.
local holder = owner or value
if holder ~= from or is_over then
  return holder == to and not is_over and 1 or 0
end
if left_ms == '0' then
  redis.call('DEL', lock_key)
  return 1
end
-- A value in another form stays as it is unless the owner changes.
local new_value = value
if to ~= from or is_ahead then
  new_value = 'ADDED:' .. iso(now) .. '@' .. to
end
-- A server without memory refuses a script's first write if that one may need memory, but no later write.
redis.call('PEXPIRE', lock_key, left_ms)
redis.call('SET', lock_key, new_value, 'PX', left_ms)
return 1
