-- The last part of LIST, after common.lua: lists locks. A free lock has no key, but its token stays. Uses: common.lua's now.
-- Answers {now, {value or nothing, milliseconds left, 1 if there is a token}, ...}.
-- The keys are those of the locks, and then perhaps those of their tokens.
local locks = tonumber(ARGV[1])
local answer = {now}
for place = 1, locks do
  local stored = redis.pcall('GET', KEYS[place])
  local token_key = KEYS[place + locks]
  local token = token_key and redis.pcall('GET', token_key)
  answer[place + 1] = {
    type(stored) == 'string' and stored,
    redis.call('PTTL', KEYS[place]),
    type(token) == 'string' and 1 or 0,
  }
end
return answer
