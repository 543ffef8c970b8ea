// A whole game client: a lobby with chat and ready flags, a game, and the leaderboard. For browsers and Node.
import { Client } from "@colyseus/sdk";

/** Joins a room, and joins it again whenever it is lost, until the client leaves it. */
const stay = async ({ url, fetchToken }, name, options, listen) => {
  const client = new Client(url);
  client.auth.token = await fetchToken(); // your backend asks POST /api/v1/auth/ws-token for it
  const room = await client.joinOrCreate(name, options());
  const renew = async () => room.request("session.renew", { token: await fetchToken() });
  room.onMessage("session.expiring", () => void renew());
  room.onMessage("*", () => {}); // what this game does not show
  room.onLeave((code) => {
    const again = () => stay({ url, fetchToken }, name, options, listen).catch(later);
    const later = () => setTimeout(() => void again(), 1_000 + Math.random() * 1_000);
    if (code !== 4000) later(); // 4000: it left by itself, or was replaced
  });
  listen(room);
};

/** `show(view)` is called whenever something changes. */
export const createGame = (url, fetchToken, show) => {
  const server = { url, fetchToken };
  const view = { lobby: null, messages: [], board: [], matchId: null };
  const rooms = {};
  const change = (values) => show(Object.assign(view, values));

  const addMessage = ({ data }) => {
    const others = view.messages.filter(({ seq }) => seq !== data.seq);
    change({ messages: [...others, data].toSorted((a, b) => a.seq - b.seq) });
  };
  const joinChat = (channelId) => {
    const options = () => ({ channelId, lastSeq: view.messages.at(-1)?.seq });
    return stay(server, "chat", options, (room) => {
      rooms.chat = room;
      room.onMessage("chat.history", ({ data }) =>
        data.messages.forEach((message) => addMessage({ data: message })),
      );
      room.onMessage("chat.message", addMessage);
      room.onMessage("chat.deleted", ({ data: { seq } }) =>
        change({ messages: view.messages.filter((message) => message.seq !== seq) }),
      );
    });
  };

  return {
    view,
    /** Enters a lobby: `{ create: { mode, maxPlayers } }`, `{ code }` or `{ quickplay: { mode } }`. */
    enter: (entry) =>
      new Promise((resolve, reject) => {
        const options = () => (view.lobby ? { lobbyId: view.lobby.id } : entry);
        stay(server, "lobby", options, (room) => {
          rooms.lobby = room;
          room.onStateChange((state) => {
            const isFirst = view.lobby === null;
            change({ lobby: state.toJSON() });
            if (isFirst) joinChat(state.channelId).then(resolve, reject);
          });
          room.onMessage("lobby.started", ({ data }) => change({ matchId: data.matchId }));
        }).catch(reject);
      }),
    ready: (ready = true) => rooms.lobby.request("lobby.ready", { ready }),
    start: () => rooms.lobby.request("lobby.start", {}),
    say: (content) => rooms.chat.request("chat.send", { content, clientMsgId: crypto.randomUUID() }),
    /** Watches the first places of a leaderboard. */
    watch: (leaderboardKey) =>
      stay(
        server,
        "leaderboard",
        () => ({ leaderboardKey, top: 10 }),
        (room) => {
          rooms.board = room;
          room.onStateChange((state) => change({ board: state.toJSON().top }));
        },
      ),
    leave: () => Promise.all(Object.values(rooms).map((room) => room.leave())),
  };
};
