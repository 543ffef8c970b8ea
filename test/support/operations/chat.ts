import { unique } from "./bodies.ts";
import type { As, Foreign, Known } from "./operations.ts";
import type { Side } from "../app/sides.ts";

/** No slow mode and no flood limits: sweeps send what they like. */
const OPEN = { slowModeSeconds: 0, burstMessages: 0, minuteMessages: 0 };
const channels = new WeakMap<Side, Promise<string>>();

/** One for each side, which stays open. */
export const aChannel = (side: Side): Promise<string> => {
  const known = channels.get(side) ?? side.make("/chat/channels", { key: unique("chat"), settings: OPEN });
  channels.set(side, known);
  return known;
};

const newChannel = (side: Side): Promise<string> => side.make("/chat/channels", { key: unique("chat") });

/** A message of a new player in the side's channel. */
export const aMessage = async (side: Side): Promise<{ channel: string; player: string; seq: number }> => {
  const [channel, player] = [await aChannel(side), await side.player()];
  const body = { content: unique("text"), playerId: player };
  const answer = await side.send("post", `/chat/channels/${channel}/messages`, body);
  return { channel, player, seq: answer.body.seq };
};

const ofChannel = (step: string, body?: object): Known => ({
  call: async (side) => ({
    path: `/chat/channels/${await newChannel(side)}/${step}`,
    ...(body ? { body } : {}),
  }),
});

const acting = (as: As, player: string): string => (as === "key" ? `?playerId=${player}` : "");

/** A player of another project is none here. */
const foreignPlayer =
  (path: (own: Side, player: string) => Promise<Foreign>) =>
  async (own: Side, other: Side, as: As): Promise<Foreign[]> =>
    as === "key" ? [await path(own, await other.player())] : [];

/** Every setting that a channel may have. */
const settings = {
  slowModeSeconds: 1,
  maxLength: 100,
  links: "ALLOW_LIST",
  allowedDomains: ["example.com"],
  profanity: "HOLD",
  reactions: false,
  mentions: "OFF",
  readOnly: true,
  minLevelToPost: 2,
  minAccountAgeSeconds: 60,
  retentionDays: 7,
  editWindowSeconds: 60,
  burstMessages: 2,
  minuteMessages: 10,
};

const ofMessage = (suffix: string): Known => ({
  call: async (side) => {
    const { channel, player, seq } = await aMessage(side);
    return { path: `/chat/channels/${channel}/messages/${seq}${suffix}?playerId=${player}` };
  },
});

export const chatOperations: Record<string, Known> = {
  listChatChannels: {
    call: async (side, as) => ({ path: `/chat/channels${acting(as, await side.player())}` }),
    foreign: foreignPlayer(async (_, player) => ({ path: `/chat/channels?playerId=${player}` })),
  },
  getChatChannel: { call: async (side) => ({ path: `/chat/channels/${await aChannel(side)}` }) },
  createChatChannel: {
    call: () => ({ path: "/chat/channels", body: { key: unique("chat"), name: "Chat", settings } }),
  },
  updateChatChannel: {
    call: async (side) => ({
      path: `/chat/channels/${await newChannel(side)}`,
      body: { name: "New", settings },
    }),
  },
  lockChatChannel: ofChannel("lock", {}),
  unlockChatChannel: {
    call: async (side) => {
      const channel = await newChannel(side);
      await side.send("post", `/chat/channels/${channel}/lock`, {});
      return { path: `/chat/channels/${channel}/unlock`, body: {} };
    },
  },
  archiveChatChannel: ofChannel("archive", {}),
  openDirectChannel: {
    call: async (side) => ({
      path: "/chat/direct",
      body: { playerIds: [await side.player(), await side.player()] },
    }),
    foreign: async (own, other) => [
      { path: "/chat/direct", body: { playerIds: [await own.player(), await other.player()] } },
    ],
  },
  listChatMembers: { call: async (side) => ({ path: `/chat/channels/${await aChannel(side)}/members` }) },
  updateChatMember: {
    // Roles take more than the scope of the operation.
    call: async (side, as) => ({
      path: `/chat/channels/${await aChannel(side)}/members/${await side.player()}`,
      body: as === "key" ? { notify: "NONE" } : { role: "MODERATOR", notify: "NONE" },
    }),
    foreign: async (own, other) => [
      {
        path: `/chat/channels/${await aChannel(own)}/members/${await other.player()}`,
        body: { notify: "NONE" },
      },
    ],
  },
  listChatMessages: {
    call: async (side) => ({ path: `/chat/channels/${(await aMessage(side)).channel}/messages` }),
  },
  sendChatMessage: {
    call: async (side) => ({
      path: `/chat/channels/${await aChannel(side)}/messages`,
      body: {
        // A random text may spell a word that is moderated.
        content: "Well played.",
        clientMsgId: unique("c"),
        mentions: [await side.player()],
        playerId: await side.player(),
      },
    }),
    foreign: foreignPlayer(async (own, playerId) => ({
      path: `/chat/channels/${await aChannel(own)}/messages`,
      body: { content: "text", playerId },
    })),
  },
  editChatMessage: {
    call: async (side) => {
      const { channel, player, seq } = await aMessage(side);
      const body = { content: unique("new"), playerId: player };
      return { path: `/chat/channels/${channel}/messages/${seq}`, body };
    },
  },
  deleteChatMessage: {
    call: async (side, as) => {
      const { channel, player, seq } = await aMessage(side);
      return { path: `/chat/channels/${channel}/messages/${seq}${acting(as, player)}` };
    },
  },
  addChatReaction: ofMessage("/reactions/wave"),
  removeChatReaction: ofMessage("/reactions/wave"),
  markChatRead: {
    call: async (side) => {
      const { channel, player, seq } = await aMessage(side);
      return { path: `/chat/channels/${channel}/read`, body: { seq, playerId: player } };
    },
  },
};
