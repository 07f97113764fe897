"""The verbs that manage runs (`runs`, `rm`, `pause`, `resume`, `drain`, `redis-cli`), and the view of a folder."""
