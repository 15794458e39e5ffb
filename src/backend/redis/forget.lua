-- Removes what is left of a free lock, whose key is gone: its records, KEYS[2], and its token, KEYS[3]. The marks of takings
-- that were given up stay, and expire by themselves. Answers {0} if an owner holds the lock, or {1, 1 if there was a token,
-- the number of records}.
if value then
  return {0}
end
return {1, redis.call('DEL', KEYS[3]), redis.call('ZREMRANGEBYRANK', KEYS[2], 0, -1)}
