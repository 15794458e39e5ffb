-- The last part of RENEW, after lock.lua. Uses: common.lua's now, iso, whole; lock.lua's lock_key, caller, owner, is_wrong.
-- Answers 1, or 0 if the lock is not the caller's.
local lease_ms = ARGV[2]
if owner ~= caller then
  return 0
end
local left = redis.call('PTTL', lock_key)
if is_wrong(left) then
  -- The lock's end is by a clock that was ahead, and does not count.
  redis.call('PEXPIRE', lock_key, lease_ms)
  redis.call('SET', lock_key, 'ADDED:' .. iso(now) .. '@' .. owner, 'PX', lease_ms)
else
  redis.call('PEXPIRE', lock_key, whole(math.max(left, tonumber(lease_ms))))
end
return 1
