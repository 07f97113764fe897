-- An operator wants dead groups again. ARGV: group and entry of its letter, for each. A letter that is gone is left out.
-- returns the groups that were asked for; the learner issues them (issue.lua).
local asked = {}
for i = 1, #ARGV, 2 do
  if header('dead', ARGV[i + 1], 'group') == ARGV[i] then
    redis.call('HSET', RETRIES, ARGV[i], ARGV[i + 1])
    asked[#asked + 1] = ARGV[i]
  end
end
return asked
