-- ARGV[2]: the lease in milliseconds. Answers {1, now}, or {0, now, milliseconds left, value}.
if value and owner ~= ARGV[1] then
  return {0, now, redis.call('PTTL', KEYS[1]), value}
end
redis.call('SET', KEYS[1], 'ADDED:' .. iso(now) .. '@' .. ARGV[1], 'PX', ARGV[2])
return {1, now}
