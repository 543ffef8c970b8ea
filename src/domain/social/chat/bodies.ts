import { z } from "zod";
import { MENTIONS_MAX } from "./mentions.ts";
import { CONTENT_MAX } from "./settings.ts";
import { EMOJI_MAX } from "./text.ts";

const CLIENT_MSG_ID_MAX = 64;

/** The seq of a message in its channel. */
export const Seq = z.int().min(1).max(Number.MAX_SAFE_INTEGER);
/** Twice CONTENT_MAX in UTF-16 units can hold as many code points; this also bounds text that is trimmed. */
const Content = z
  .string()
  .max(2 * CONTENT_MAX)
  .meta({ description: "1 to the channel's maxLength characters after trimming" });

export const SendBody = z.strictObject({
  content: Content,
  clientMsgId: z
    .string()
    .min(1)
    .max(CLIENT_MSG_ID_MAX)
    .optional()
    .meta({ description: "Sent again with the same one, it is the message of before" }),
  replyTo: Seq.optional(),
  mentions: z
    .array(z.uuid())
    .max(MENTIONS_MAX)
    .optional()
    .meta({ description: "Ids of players; @externalUserId in the text mentions too" }),
});

export const EditBody = z.strictObject({ seq: Seq, content: Content });
export const DeleteBody = z.strictObject({ seq: Seq });
export const ReactBody = z.strictObject({
  seq: Seq,
  emoji: z
    .string()
    .min(1)
    .max(2 * EMOJI_MAX),
  op: z.enum(["ADD", "REMOVE"]),
});
export const ReadBody = z.strictObject({ seq: z.int().min(0).max(Number.MAX_SAFE_INTEGER) });
