/* global document, fetch, location, Colyseus */

/** Maximum number of messages kept on the page. */
const MESSAGES_MAX = 200;

/** Join options and possible requests of each kind of room. */
const KINDS = {
  player: { options: {}, requests: { "session.resync": { lastSeq: 0 } } },
  leaderboard: { options: { leaderboardKey: "xp", top: 10, around: 2 }, requests: {} },
  lobby: {
    options: { create: { mode: "duel", maxPlayers: 4 } },
    requests: {
      "lobby.ready": { ready: true },
      "lobby.start": {},
      "lobby.cancel_start": {},
      "lobby.member": { data: { colour: "red" } },
      "lobby.signal": { payload: "hello" },
      "lobby.heartbeat": {},
      "lobby.leave": {},
      "lobby.close": {},
    },
  },
  lobbies: { options: { mode: "" }, requests: {} },
  chat: {
    options: { channelId: "global" },
    requests: {
      "chat.send": { content: "hello" },
      "chat.typing": {},
      "chat.read": { seq: 1 },
      "chat.react": { seq: 1, emoji: "👍", op: "ADD" },
      "chat.edit": { seq: 1, content: "hello again" },
      "chat.delete": { seq: 1 },
      "chat.resync": { lastSeq: 0 },
    },
  },
};
const ALWAYS = { "session.renew": { token: "" } };

let room;

const $ = (id) => document.getElementById(id);
const pretty = (value) => JSON.stringify(value, null, 2) ?? "";

const tell = (text, isRefused = false) => {
  $("status").textContent = text;
  $("status").className = isRefused ? "refused" : "";
};

const parse = (id) => {
  try {
    return JSON.parse($(id).value || "{}");
  } catch (error) {
    throw new Error(`${id} is no JSON: ${error.message}`, { cause: error });
  }
};

/** Displays any failure, with the error object if there is one. */
const fail = (error) => tell(error?.reason ? pretty(error.reason) : String(error?.message ?? error), true);

const attempt = async (act) => {
  try {
    await act();
  } catch (error) {
    fail(error);
  }
};

const on = (id, event, act) =>
  $(id).addEventListener(event, (what) => {
    what.preventDefault();
    void attempt(act);
  });

const fetchToken = async () => {
  const key = $("key").value.trim();
  if (!key.startsWith("svc_test_"))
    throw new Error(
      "Only the key of a sandbox (svc_test_…) may be in a browser: it can do what its scopes say",
    );
  const answer = await fetch("/api/v1/auth/ws-token", {
    method: "POST",
    headers: { "X-API-Key": key, "Content-Type": "application/json" },
    body: JSON.stringify({ externalUserId: $("player").value }),
  });
  const body = await answer.json();
  if (!answer.ok) throw new Error(`${answer.status} ${body.error.code}: ${body.error.message}`);
  $("token").value = body.token;
  tell(`A token of player ${body.playerId}, until ${body.expiresAt}.`);
};

const showMessage = (name, message) => {
  const line = document.createElement("li");
  line.textContent = `${name} ${JSON.stringify(message)}`;
  $("messages").prepend(line);
  while ($("messages").childElementCount > MESSAGES_MAX) $("messages").lastElementChild.remove();
};

const listen = (joined) => {
  joined.onMessage("*", showMessage);
  joined.onStateChange((state) => ($("state").textContent = pretty(state.toJSON())));
  joined.onReconnect(() => tell(`In ${joined.name} again, room ${joined.roomId}.`));
  joined.onLeave((code, reason) => {
    if (room !== joined) return;
    room = undefined;
    tell(`Left with code ${code}${reason ? `: ${reason}` : ""}.`);
  });
};

const leave = async () => {
  const left = room;
  if (!left) return;
  room = undefined;
  await left.leave();
  tell("Left.");
};

const join = async () => {
  const options = parse("options");
  await leave();
  const client = new Colyseus.Client(location.origin);
  client.auth.token = $("token").value.trim();
  const kind = $("kind").value;
  $("state").textContent = "";
  $("messages").replaceChildren();
  room = await client.joinOrCreate(kind, options);
  listen(room);
  tell(`In ${kind}, room ${room.roomId}, session ${room.sessionId}.`);
};

const inRoom = () => {
  if (!room) throw new Error("Join a room first");
  return room;
};

const request = async () => {
  $("answer").textContent = "";
  const body = parse("body");
  try {
    $("answer").textContent = pretty(await inRoom().request($("name").value, body));
  } catch (error) {
    $("answer").textContent = `refused: ${error?.reason ? pretty(error.reason) : error.message}`;
  }
};

const requestsOf = (kind) => ({ ...KINDS[kind].requests, ...ALWAYS });

const chooseKind = () => {
  const kind = $("kind").value;
  const names = Object.keys(requestsOf(kind));
  $("options").value = pretty(KINDS[kind].options);
  $("names").replaceChildren(
    ...names.map((value) => Object.assign(document.createElement("option"), { value })),
  );
  $("name").value = names[0];
  chooseRequest();
};

const chooseRequest = () => {
  const body = requestsOf($("kind").value)[$("name").value];
  if (body !== undefined) $("body").value = pretty(body);
};

$("kind").replaceChildren(
  ...Object.keys(KINDS).map((kind) =>
    Object.assign(document.createElement("option"), { value: kind, textContent: kind }),
  ),
);
chooseKind();
on("fetch", "submit", fetchToken);
on("join", "submit", join);
on("leave", "click", leave);
on("request", "submit", request);
on("send", "click", () => inRoom().send($("name").value, parse("body")));
on("kind", "change", chooseKind);
on("name", "change", chooseRequest);
document.body.dataset.isReady = "true";
