-- Renews the lock. ARGV[2]: the lease in milliseconds. Answers 1, or 0 if the lock is not the owner's.
if owner ~= ARGV[1] then
  return 0
end
local left = redis.call('PTTL', KEYS[1])
if is_wrong(left) then
  -- Its end is by a clock that was ahead, and does not count.
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  redis.call('SET', KEYS[1], 'ADDED:' .. iso(now) .. '@' .. owner, 'PX', ARGV[2])
else
  redis.call('PEXPIRE', KEYS[1], whole(math.max(left, tonumber(ARGV[2]))))
end
return 1
