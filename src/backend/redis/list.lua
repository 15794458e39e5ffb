-- Lists locks. KEYS: the locks, or the locks and then the keys of their tokens. ARGV[1]: the number of locks. A free
-- lock has no key, but its token stays. Answers {now, {value or nothing, milliseconds left, 1 if there is a token},
-- ...}.
local answer = {now}
for place = 1, tonumber(ARGV[1]) do
  local stored = redis.pcall('GET', KEYS[place])
  local beside = KEYS[place + ARGV[1]]
  local token = beside and redis.pcall('GET', beside)
  answer[place + 1] = {
    type(stored) == 'string' and stored,
    redis.call('PTTL', KEYS[place]),
    type(token) == 'string' and 1 or 0,
  }
end
return answer
