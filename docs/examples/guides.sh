# What the commands of the guides need, in bash: `. docs/examples/guides.sh` in the folder of the code.
export URL="${URL:-http://localhost:2567}"
export CONSOLE_URL="${CONSOLE_URL:-$URL/console}"
json="Content-Type: application/json"

# api METHOD PATH [BODY]: sends a request with $KEY, and shows an error even where the answer goes elsewhere.
api() {
  answer=$(curl -sS --fail-with-body -X "$1" "$URL/api/v1$2" -H "X-API-Key: $KEY" \
    -H "$json" ${3:+-d "$3"}) || { echo "$answer" >&2; return 1; }
  echo "$answer"
}

# me METHOD PATH [BODY]: sends a request with the access token $TOKEN.
me() { curl -sS -w '\n' -X "$1" "$URL/api/v1$2" -H "Authorization: Bearer $TOKEN" -H "$json" ${3:+-d "$3"}; }

# field user.tenantId: picks a field out of the answer on standard input, or shows an answer that lacks it.
field() {
  node -e 'const text = require("fs").readFileSync(0, "utf8");
    const value = process.argv[1].split(".").reduce((at, name) => at?.[name], JSON.parse(text || "{}"));
    if (value === undefined) { console.error(text); process.exit(1); } else console.log(value);' "$1"
}

# ended JOB: shows a job, once it has ended.
ended() {
  while job=$(api GET "/jobs/$1") && echo "$job" | grep -Eq '"status":"(QUEUED|RUNNING)"'; do sleep 0.2; done
  echo "$job"
}
