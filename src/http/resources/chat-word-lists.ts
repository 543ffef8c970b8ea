import { z } from "zod";
import { DESIGNERS } from "../../domain/kernel/caller.ts";
import { prepareFilter, tryFilter } from "../../domain/social/chat/moderation/filters.ts";
import {
  LIST_ACTIONS,
  LIST_MATCHES,
  WORD_LENGTH_MAX,
} from "../../domain/social/chat/moderation/word-filter.ts";
import {
  deleteWordList,
  getWordList,
  LIST_WORDS_MAX,
  listWordLists,
  putWordList,
} from "../../domain/social/chat/moderation/show-sanction.ts";
import { CONTENT_MAX } from "../../domain/social/chat/settings.ts";
import { group } from "../route.ts";
import { Deleted, deleted } from "./plain-bodies.ts";

/** 5,000 words of 64 letters, written with escapes. */
const BODY_MAX_BYTES = 2 * 1024 * 1024;

const common = group({ tag: "Chat moderation", project: "caller" });
const manage = common.with({ access: { scope: "chat:moderate", roles: DESIGNERS } });

const Summary = z.object({
  key: z.string(),
  action: z.enum(LIST_ACTIONS),
  match: z.enum(LIST_MATCHES),
  wordCount: z.int(),
  createdAt: z.iso.datetime(),
  updatedAt: z.iso.datetime(),
});
const SummaryBody = Summary.meta({ id: "ChatWordListSummary" });
const ListBody = Summary.extend({ words: z.array(z.string()) }).meta({ id: "ChatWordList" });

const ListInput = z
  .strictObject({
    action: z
      .enum(LIST_ACTIONS)
      .meta({ description: "ALLOW: words of other lists inside of these do not count" }),
    match: z
      .enum(LIST_MATCHES)
      .default("WORD")
      .meta({ description: "WORD: where a word begins and ends; SUBSTRING: anywhere" }),
    words: z.array(z.string().min(1).max(WORD_LENGTH_MAX)).max(LIST_WORDS_MAX),
  })
  .meta({ example: { action: "MASK", match: "WORD", words: ["noob"] } });

const Trial = z
  .object({
    outcome: z.enum(["VISIBLE", "MASKED", "HELD", "BLOCKED"]),
    content: z.string().nullable().meta({ description: "As others would read it; null: blocked" }),
    reason: z.string().nullable().meta({ description: "LINK_NOT_ALLOWED or MESSAGE_BLOCKED" }),
    flags: z.array(z.string()),
    words: z
      .array(
        z.object({
          list: z.string().meta({
            description: "@en is the built-in list, @unread stands for text that takes too long to search",
          }),
          word: z.string(),
          action: z.enum(["MASK", "BLOCK", "HOLD"]),
          start: z.int().meta({ description: "In UTF-16 units of the text" }),
          end: z.int().meta({ description: "Exclusive" }),
        }),
      )
      .meta({ description: "The rules that matched, and where: of a list the longest at each place" }),
    links: z
      .array(z.object({ host: z.string(), domain: z.string().nullable() }))
      .meta({ description: "Where links are not all allowed: those that were found" }),
  })
  .meta({ id: "ChatFilterTrial" });

export const chatWordListRoutes = [
  manage.get("/chat/word-lists", "listChatWordLists", {
    summary: "List the word lists of a project",
    description: "By key, without their words; at most 50.",
    response: z.object({ data: z.array(SummaryBody) }),
    run: async (work, { projectId }) => ({ data: await listWordLists(work, projectId) }),
  }),
  manage.get("/chat/word-lists/{key}", "getChatWordList", {
    summary: "Get a word list",
    response: ListBody,
    run: (work, { projectId, params }) => getWordList(work, projectId, params.key),
  }),
  manage.put("/chat/word-lists/{key}", "putChatWordList", {
    summary: "Make or replace a word list",
    description: "It holds for every message that is sent from then on, in all channels of the project.",
    body: ListInput,
    bodyLimit: BODY_MAX_BYTES,
    response: ListBody,
    run: (work, { projectId, params, body }) => putWordList(work, projectId, params.key, body),
  }),
  manage.delete("/chat/word-lists/{key}", "deleteChatWordList", {
    summary: "Delete a word list",
    response: Deleted,
    run: (work, { projectId, params }) => deleted(deleteWordList(work, projectId, params.key)),
  }),
  manage.post("/chat/filter/test", "testChatFilter", {
    summary: "Test the moderation of a text",
    description:
      "As of a player who may write: in a channel, or in one of kind PROJECT with its defaults. It writes " +
      "nothing.",
    body: z
      .strictObject({
        text: z.string().max(2 * CONTENT_MAX),
        channelId: z.uuid().optional(),
      })
      .meta({ example: { text: "well played" } }),
    response: Trial,
    prepare: (app, { projectId }) => prepareFilter(app, projectId),
    run: (work, { projectId, body }) => tryFilter(work, projectId, body),
  }),
];
