-- Renews the lock. ARGV[2]: the lease in milliseconds. Answers 1, or 0 if the lock is not the owner's.
if owner ~= ARGV[1] then
  return 0
end
redis.call('PEXPIRE', KEYS[1], whole(math.max(redis.call('PTTL', KEYS[1]), tonumber(ARGV[2]))))
return 1
