import { unique } from "./bodies.ts";
import { aChannel, aMessage } from "./chat.ts";
import type { Known } from "./operations.ts";
import type { Side } from "../app/sides.ts";

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
const lists = new WeakMap<Side, string>();

/** The lists of a project are few: each side has one, which is made again and again. */
const put = async (side: Side): Promise<string> => {
  const key = lists.get(side) ?? unique("list");
  lists.set(side, key);
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
