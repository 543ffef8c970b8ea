import { sql } from "kysely";
import { z } from "zod";
import { type RowOf, shownRow } from "../../kernel/json.ts";
import { countRows, type Total, type Work } from "../../kernel/work.ts";
import { checkActiveKey } from "../definitions/references.ts";
import { conflict, invalid, notFound } from "../../kernel/errors.ts";
import type { Cause, Json } from "../../kernel/events/events.ts";
import { isId, newId } from "../../kernel/ids.ts";
import { offsetOf, orderBy, type Ordered, type PageQuery, type SortOf } from "../../kernel/paging.ts";
import { checkActive } from "../../evaluation/player-state.ts";
import { changePlayers, type PlayerKey } from "../../progression/change.ts";
import type { Turn } from "../../evaluation/turn.ts";
import { grantReward } from "../../evaluation/rewards/shared-keys.ts";
import { MESSAGE_MAX_MS, sendMessage } from "../../evaluation/inbox/send.ts";

/** A message in a player's inbox. */
export const InboxMessage = z
  .object({
    id: z.uuid(),
    type: z.string(),
    title: z.string(),
    body: z.string().nullable(),
    data: z.record(z.string(), z.unknown()),
    rewardGrantId: z.uuid().nullable().meta({ description: "A reward that waits to be claimed" }),
    readAt: z.iso.datetime().nullable(),
    expiresAt: z.iso.datetime().nullable(),
    createdAt: z.iso.datetime(),
  })
  .meta({ id: "InboxMessage" });
export type InboxMessage = z.output<typeof InboxMessage>;

const COLUMNS = sql.raw(
  `id, type, title, body, data, reward_grant_id as "rewardGrantId", read_at as "readAt",
  expires_at as "expiresAt", created_at as "createdAt"`,
);

/** A player's messages that have not expired. */
const current = ({ projectId, id }: PlayerKey, now: Date) => sql`
  project_id = ${projectId} and player_id = ${id}
    and (expires_at is null or expires_at > ${now.toISOString()}::timestamptz)`;

/** Orders of the list. */
export const INBOX_ORDERS = { by: { createdAt: sql`id` }, usual: "desc" } as const;

export type ListInbox = PageQuery &
  Ordered<SortOf<typeof INBOX_ORDERS>> & { unread?: boolean | undefined; type?: string | undefined };

/** Lists a player's messages, newest first. */
export const listInbox = async (
  work: Work,
  player: PlayerKey,
  query: ListInbox,
): Promise<Total & { messages: InboxMessage[] }> => {
  const read =
    query.unread === undefined ? sql`true` : query.unread ? sql`read_at is null` : sql`read_at is not null`;
  const ofType = query.type === undefined ? sql`true` : sql`type = ${query.type}`;
  const source = sql`inbox_messages where ${current(player, work.now)} and ${read} and ${ofType}`;
  const page = await sql<RowOf<InboxMessage>>`
    select ${COLUMNS} from ${source} order by ${orderBy(INBOX_ORDERS, query, sql`id`)}
    limit ${query.limit} offset ${offsetOf(query)}`.execute(work.db);
  return { messages: page.rows.map((row) => shownRow(row)), ...(await countRows(work, source)) };
};

export type MessageByHand = {
  type: string;
  title: string;
  body?: string | undefined;
  data: Json;
  /** A reward to be claimed with the message. */
  rewardKey?: string | undefined;
  expiresAt?: string | undefined;
  cause: Cause;
};

/**
 * Sends a player a message by REST, optionally with a reward to claim, which expires with the message.
 * @throws DomainError VALIDATION_ERROR; CONFLICT: NOT_AVAILABLE, OUT_OF_STOCK, LIMIT_REACHED, PLAYER_INACTIVE
 */
export const sendByHand = async (
  work: Work,
  player: PlayerKey,
  message: MessageByHand,
): Promise<InboxMessage> => {
  const { projectId } = player;
  const { rewardKey, expiresAt } = message;
  const expiresMs = expiresAt === undefined ? null : expiryOf(expiresAt, work.now.getTime());
  if (rewardKey !== undefined)
    await checkActiveKey(work, projectId, { kind: "reward", key: rewardKey, field: "rewardKey" });
  const [sent] = await changePlayers(work, projectId, [player.id], (turn) => {
    checkActive(turn.player);
    const { type, title, body = null, data } = message;
    const rewardGrantId = rewardKey === undefined ? null : enclose(turn, rewardKey, expiresMs, message.cause);
    return sendMessage(turn, { type, title, body, data, rewardGrantId, expiresMs });
  });
  if (!sent) throw notFound("player");
  return getMessage(work, { projectId, id: sent.player.id }, sent.value.id);
};

const expiryOf = (expiresAt: string, nowMs: number): number => {
  const expiresMs = Date.parse(expiresAt);
  if (expiresMs <= nowMs) throw invalid("expiresAt", "must be in the future");
  if (expiresMs > nowMs + MESSAGE_MAX_MS) throw invalid("expiresAt", "must be within a year");
  return expiresMs;
};

/** @returns the id of the pending grant */
const enclose = (turn: Turn, rewardKey: string, expiresMs: number | null, cause: Cause): string => {
  const seconds = expiresMs === null ? {} : { expiresInSeconds: Math.ceil((expiresMs - turn.nowMs) / 1_000) };
  const order = { rewardKey, quantity: 1, delivery: "CLAIM" as const, cause, key: `api:${newId()}` };
  const given = grantReward(turn, { ...order, ...seconds });
  if ("problem" in given) throw conflict(given.problem, `the reward ${rewardKey} cannot be given now`);
  return given.grant.id;
};

const getMessage = async ({ db, now }: Work, player: PlayerKey, messageId: string): Promise<InboxMessage> => {
  const found = await sql<RowOf<InboxMessage>>`
    select ${COLUMNS} from inbox_messages where ${current(player, now)} and id = ${messageId}`.execute(db);
  if (!found.rows[0]) throw notFound("message");
  return shownRow(found.rows[0]);
};

/** Marks a message as read; the time of the first reading is kept. @throws DomainError NOT_FOUND */
export const readMessage = async (
  work: Work,
  player: PlayerKey,
  messageId: string,
): Promise<InboxMessage> => {
  if (!isId(messageId)) throw notFound("message");
  const now = work.now.toISOString();
  await sql`
    update inbox_messages set read_at = coalesce(read_at, ${now}::timestamptz)
    where ${current(player, work.now)} and id = ${messageId}`.execute(work.db);
  return getMessage(work, player, messageId);
};
