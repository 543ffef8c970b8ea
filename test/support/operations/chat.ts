import { unique } from "./bodies.ts";
import type { As, Foreign, Known } from "./operations.ts";
import { onePerSide, type Side } from "../app/sides.ts";
import { aPlayer, join } from "../rooms/sdk.ts";
import { startApp } from "../app/app.ts";

/** No slow mode and no flood limits: sweeps send what they like. */
const OPEN = { slowModeSeconds: 0, burstMessages: 0, minuteMessages: 0 };

/** It stays open. */
const aChannel = onePerSide((side) => side.make("/chat/channels", { key: unique("chat"), settings: OPEN }));

const newChannel = (side: Side): Promise<string> => side.make("/chat/channels", { key: unique("chat") });

/** A message of a new player in the side's channel. */
const aMessage = async (side: Side): Promise<{ channel: string; player: string; seq: number }> => {
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

type Made = { id: string; player: string };

const sanction = async (side: Side): Promise<Made> => {
  const player = await side.player();
  const body = { playerId: player, kind: "MUTE", reason: "Spam", durationSeconds: 60 };
  return { id: await side.make("/chat/sanctions", body), player };
};

const appealed = async (side: Side): Promise<Made> => {
  const made = await sanction(side);
  await side.send("post", `/api/v1/chat/sanctions/${made.id}/appeal`, {
    playerId: made.player,
    text: "It was not me",
  });
  return made;
};

const report = async (side: Side): Promise<string> => {
  const { channel, seq } = await aMessage(side);
  const body = { playerId: await side.player(), reason: "SPAM", note: "Look" };
  return side.make(`/chat/channels/${channel}/messages/${seq}/reports`, body);
};

/** A message that the built-in list has masked. */
const masked = async (side: Side): Promise<string> => {
  const body = { content: `${unique("text")} shit`, playerId: await side.player() };
  const channel = await aChannel(side);
  const sent = await side.send("post", `/api/v1/chat/channels/${channel}/messages`, body);
  return `/chat/channels/${channel}/messages/${sent.body.seq}`;
};

const LIST = { action: "BLOCK", match: "WORD", words: ["some", "words"] };
const listKey = onePerSide(() => unique("list"));

/** The lists of a project are few: each side has one, which is made again and again. */
const put = async (side: Side): Promise<string> => {
  const key = listKey(side);
  await side.send("put", `/api/v1/chat/word-lists/${key}`, LIST);
  return `/chat/word-lists/${key}`;
};

export const chatModerationOperations: Record<string, Known> = {
  listChatSanctions: {
    call: async (side) => ({
      path: `/chat/sanctions?playerId=${(await sanction(side)).player}&kind=MUTE&active=true`,
    }),
  },
  createChatSanction: {
    call: async (side) => ({
      path: "/chat/sanctions",
      body: {
        playerId: await side.player(),
        kind: "BAN",
        channelId: await aChannel(side),
        reason: "Spam",
        durationSeconds: 60,
      },
    }),
    foreign: async (_, other) => [
      {
        path: "/chat/sanctions",
        body: { playerId: await other.player(), kind: "MUTE", reason: "Spam" },
      },
    ],
  },
  getChatSanction: { call: async (side) => ({ path: `/chat/sanctions/${(await sanction(side)).id}` }) },
  revokeChatSanction: { call: async (side) => ({ path: `/chat/sanctions/${(await sanction(side)).id}` }) },
  appealChatSanction: {
    call: async (side) => {
      const { id, player } = await sanction(side);
      return { path: `/chat/sanctions/${id}/appeal`, body: { playerId: player, text: "It was not me" } };
    },
  },
  answerChatAppeal: {
    call: async (side) => ({
      path: `/chat/sanctions/${(await appealed(side)).id}/appeal`,
      body: { status: "REJECTED" },
    }),
  },
  restoreChatMessage: { call: async (side) => ({ path: `${await masked(side)}/restore`, body: {} }) },
  reportChatMessage: {
    call: async (side) => {
      const { channel, seq } = await aMessage(side);
      return {
        path: `/chat/channels/${channel}/messages/${seq}/reports`,
        body: { playerId: await side.player(), reason: "SPAM", note: "Look" },
      };
    },
    foreign: async (own, other) => {
      const { channel, seq } = await aMessage(own);
      const body = { playerId: await other.player(), reason: "SPAM" };
      return [{ path: `/chat/channels/${channel}/messages/${seq}/reports`, body }];
    },
  },
  listChatReports: { call: () => ({ path: "/chat/reports?status=OPEN" }) },
  getChatReport: { call: async (side) => ({ path: `/chat/reports/${await report(side)}` }) },
  updateChatReport: {
    call: async (side) => ({
      path: `/chat/reports/${await report(side)}`,
      body: { status: "IN_REVIEW", assignee: "ada" },
    }),
  },
  listChatWordLists: { call: () => ({ path: "/chat/word-lists" }) },
  getChatWordList: { call: async (side) => ({ path: await put(side) }) },
  putChatWordList: { call: async (side) => ({ path: await put(side), body: LIST }) },
  deleteChatWordList: { call: async (side) => ({ path: await put(side) }) },
  testChatFilter: {
    call: async (side) => ({
      path: "/chat/filter/test",
      body: { text: "well played", channelId: await aChannel(side) },
    }),
  },
};

/** A player of the side's who sits in their room. */
const aSeat = async ({ tenant }: Side): Promise<{ roomId: string; sessionId: string }> => {
  const api = await startApp();
  const { token } = await aPlayer(api, tenant.key);
  const { room } = await join(api, token, "player");
  return room;
};

export const liveRoomOperations: Record<string, Known> = {
  listLiveRooms: { call: () => ({ path: "/admin/rooms" }) },
  listRooms: { call: () => ({ path: "/rooms" }) },
  getLiveRoom: { call: async (side) => ({ path: `/admin/rooms/${(await aSeat(side)).roomId}` }) },
  listLiveProcesses: { call: () => ({ path: "/admin/processes" }) },
  disconnectLiveClient: {
    call: async (side) => {
      const { roomId, sessionId } = await aSeat(side);
      const path = `/admin/rooms/${roomId}/clients/${sessionId}/disconnect`;
      return { path, body: { reason: "Swept" } };
    },
  },
};
