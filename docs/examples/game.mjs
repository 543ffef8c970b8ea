// A whole game client: a lobby with chat and ready flags, a game, and the leaderboard. For browsers and Node.
import { stay } from "./stay.mjs";

const NOTHING = { lobby: null, messages: [], matchId: null };

const listenToChat = (room, view, change) => {
  const addMessage = ({ data }) => {
    const others = view.messages.filter(({ seq }) => seq !== data.seq);
    change({ messages: [...others, data].toSorted((a, b) => a.seq - b.seq) });
  };
  room.onMessage("chat.history", ({ data }) =>
    data.messages.forEach((message) => addMessage({ data: message })),
  );
  room.onMessage("chat.message", addMessage);
  room.onMessage("chat.deleted", ({ data: { seq } }) =>
    change({ messages: view.messages.filter((message) => message.seq !== seq) }),
  );
};

/** `show(view)` is called whenever something changes. `view.ended` says why the lobby was lost. */
export const createGame = (url, fetchToken, show) => {
  const server = { url, fetchToken };
  const view = { ...NOTHING, board: [], ended: null };
  const rooms = {};
  const change = (values) => show(Object.assign(view, values));

  const joinChat = async (channelId) => {
    const options = () => ({ channelId, lastSeq: view.messages.at(-1)?.seq });
    const listen = (room) => listenToChat(room, view, change);
    rooms.chat = await stay(server, "chat", options, { listen, end: () => change({ messages: [] }) });
  };
  /** The lobby is over for this client: nothing of it is shown any more, but why. */
  const endLobby = (why) => {
    void rooms.chat?.leave();
    change({ ...NOTHING, ended: why ?? null });
  };
  const joinLobby = (entry) =>
    new Promise((resolve, reject) => {
      const options = () => (view.lobby ? { lobbyId: view.lobby.id } : entry);
      const listen = (room) => {
        room.onStateChange((state) => {
          const isFirst = view.lobby === null;
          change({ lobby: state.toJSON(), ended: null });
          if (isFirst) joinChat(state.channelId).then(resolve, reject);
        });
        room.onMessage("lobby.started", ({ data }) => change({ matchId: data.matchId }));
      };
      stay(server, "lobby", options, { listen, end: endLobby }).then(
        (lobby) => (rooms.lobby = lobby),
        reject,
      );
    });

  return {
    view,
    /** Enters a lobby: `{ create: { mode, maxPlayers } }`, `{ code }` or `{ quickplay: { mode } }`. */
    enter: async (entry) => {
      await Promise.all([rooms.lobby?.leave(), rooms.chat?.leave()]);
      await joinLobby(entry);
    },
    ready: (ready = true) => rooms.lobby.request("lobby.ready", { ready }),
    start: () => rooms.lobby.request("lobby.start", {}),
    say: (content) => rooms.chat.request("chat.send", { content, clientMsgId: crypto.randomUUID() }),
    /** Watches the first places of a leaderboard. */
    watch: async (leaderboardKey) => {
      const options = () => ({ leaderboardKey, top: 10 });
      const listen = (room) => room.onStateChange((state) => change({ board: state.toJSON().top }));
      rooms.board = await stay(server, "leaderboard", options, { listen, end: () => change({ board: [] }) });
    },
    leave: () => Promise.all(Object.values(rooms).map((room) => room.leave())),
  };
};
