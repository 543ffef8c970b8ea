import { type RawBuilder, sql } from "kysely";
import { isSubscribed, isWebhookType } from "./catalogue.ts";
import { hasFeature, limitsOf, type Plan, PLAN_LIMITS, type PlanLimits } from "../../kernel/caller.ts";
import { feedReadSince } from "../../kernel/events/event-types.ts";
import type { Json } from "../../kernel/events/events.ts";
import { idFor, isId } from "../../kernel/ids.ts";
import { mapInSlices } from "../../kernel/slices.ts";
import { kept } from "../../kernel/statements.ts";
import type { Work } from "../../kernel/work.ts";

/** Maximum bytes of a body. */
export const BODY_MAX = 64 * 1024;

/** An event of the outbox. */
export type Happened = {
  id: string;
  projectId: string;
  type: string;
  playerId: string | null;
  data: Json;
  createdAt: Date;
};

/** Returns the exact text sent to webhooks; undefined for an event that is not for webhooks. */
export const webhookBody = ({ id, projectId, type, data, createdAt }: Happened): string | undefined => {
  const shown = shownData(type, data);
  if (shown === undefined) return undefined;
  const text = (content: Json): string =>
    JSON.stringify({ id, type, projectId, createdAt: createdAt.toISOString(), data: content });
  const body = text(shown);
  return Buffer.byteLength(body) <= BODY_MAX ? body : text(cut(shown, BODY_MAX - overhead(text)));
};

const overhead = (text: (content: Json) => string): number => Buffer.byteLength(text({}));

/** Events emitted by a rule contain their destination, which is removed for receivers. */
const shownData = (type: string, data: Json): Json | undefined => {
  if (!type.startsWith("custom.")) return data;
  const { channels, ...shown } = data;
  return Array.isArray(channels) && !channels.includes("webhook") ? undefined : shown;
};

const bytesOf = (value: unknown): number => Buffer.byteLength(JSON.stringify(value));

/**
 * Shortens the largest lists until the data fits, and sets `truncated: true`. If it is too large without any
 * list, the largest fields are removed.
 */
const cut = (data: Json, room: number): Json => {
  let left: Json = { ...data, truncated: true };
  while (bytesOf(left) > room) {
    const [name, value] = largest(left);
    if (Array.isArray(value) && value.length > 0)
      left = { ...left, [name]: value.slice(0, Math.floor(value.length / 2)) };
    else left = Object.fromEntries(Object.entries(left).filter(([other]) => other !== name));
  }
  return left;
};

const largest = (data: Json): [string, unknown] =>
  Object.entries(data).reduce((most, one) => (bytesOf(one[1]) > bytesOf(most[1]) ? one : most));

/** Error of a delivery whose event concerned an erased person. */
export const ERASED_ERROR = "Its player was erased";

/** The event about the erasure itself, without any data of the person. */
export const ERASURE_TYPE = "player.erased";

/** Fields whose values are ids of players. */
const PLAYER_FIELD = /player|host|mention|sender|reporter|member/i;
/** Maximum difference between the clocks of the process that erases and that of an event, in ms. */
const CLOCKS_MS = 60_000;

/** Returns the ids of all players that an event refers to, wherever they are in it. */
const playersOf = ({ playerId, data }: Pick<Happened, "playerId" | "data">): string[] => {
  const ids = new Set<string>(playerId === null ? [] : [playerId]);
  collect(data, { isPlayer: false, ids });
  return [...ids];
};

const collect = (value: unknown, at: { isPlayer: boolean; ids: Set<string> }): void => {
  const { isPlayer, ids } = at;
  if (typeof value === "string") {
    if (isPlayer && isId(value)) ids.add(value);
  } else if (Array.isArray(value)) {
    for (const one of value) collect(one, at);
  } else if (typeof value === "object" && value !== null) {
    for (const [key, one] of Object.entries(value)) collect(one, { isPlayer: PLAYER_FIELD.test(key), ids });
  }
};

/**
 * Condition: whether an event `e` concerns a person who was erased after it: it is not delivered. It looks players
 * up by their ids, so that it applies from the commit that erases on, however long the rest of the erasure takes.
 * The limit makes the planner look up each by its key: where statistics are old it would read all players for
 * every event.
 */
export const CONCERNS_ERASED: RawBuilder<boolean> = sql`(
  e.type <> ${sql.lit(ERASURE_TYPE)} and exists (
    select from unnest(e.players) as n(id) cross join lateral (
      select external_user_id, updated_at from players
      where project_id = e.project_id and id = n.id limit 1) p
    where p.external_user_id = 'erased:' || n.id::text
      and p.updated_at >= e.created_at - ${sql.lit(`${CLOCKS_MS} ms`)}::interval))`;

/** Receivers of a project's events: webhooks, and the feed if it is read. */
type Subscribers = {
  projectId: string;
  tenantId: string;
  webhooks: readonly { id: string; events: readonly string[] }[];
  isFeedRead: boolean;
  /** How long events and deliveries are kept, in ms. */
  keptMs: number;
};

const DAY_MS = 86_400_000;
/** For plans without a limit. */
const UNLIMITED_DAYS = 3_650;

type Row = Omit<Subscribers, "keptMs"> & { plan: Plan; planOverrides: Partial<PlanLimits> };

/** Returns how long deliveries are kept, in ms: by plan. */
export const keptMsOf = (tenant: { plan: Plan; planOverrides: Partial<PlanLimits> }): number => {
  const days = limitsOf(tenant).deliveryLogDays ?? UNLIMITED_DAYS;
  return Math.max(days, PLAN_LIMITS.PRO.deliveryLogDays ?? 0) * DAY_MS;
};

/**
 * Returns the receivers of events of these projects; projects without any are omitted. A webhook that is
 * PAUSED, or whose tenant is suspended, is included: its events wait. Read after the events were committed,
 * so that it misses no webhook that existed before.
 */
export const readSubscribers = async (
  { db, now }: Work,
  projectIds: Iterable<string>,
): Promise<Subscribers[]> => {
  const ids = [...new Set(projectIds)];
  if (ids.length === 0) return [];
  const readSince = feedReadSince(now).toISOString();
  const { rows } = await kept(
    db,
    sql<Row>`
    select p.id as "projectId", p.tenant_id as "tenantId", t.plan, t.plan_overrides as "planOverrides",
      coalesce(f.read_at > ${readSince}::timestamptz, false) as "isFeedRead",
      coalesce(w.list, '[]') as webhooks
    from projects p join tenants t on t.id = p.tenant_id
    left join webhook_feeds f on f.project_id = p.id
    left join lateral (
      select json_agg(json_build_object('id', w.id, 'events', w.events) order by w.id) as list
      from webhooks w
      where w.tenant_id = p.tenant_id and w.deleted_at is null and w.status <> 'DISABLED'
        and (w.project_id = p.id or (w.project_id is null and p.sandbox_of is null))) w on true
    where p.id = any(${`{${ids.join(",")}}`}::uuid[]) and (w.list is not null or f.read_at is not null)
      and p.deleted_at is null and t.deleted_at is null
      and t.approval_status in ('APPROVED', 'SUSPENDED')`,
  );
  return rows
    .filter((row) => hasFeature(row, "webhooks") && (row.isFeedRead || row.webhooks.length > 0))
    .map(({ plan, planOverrides, ...row }) => ({ ...row, keptMs: keptMsOf({ plan, planOverrides }) }));
};

/** Id of one webhook's delivery of one event: the same whoever plans it, sorted by the event's time. */
export const deliveryId = (webhookId: string, event: { id: string; createdAt: Date }): string =>
  idFor(event.createdAt.getTime(), `${webhookId}:${event.id}`);

/** An event for the feed and webhooks: `text` is the inside of a JSON object. */
export type PlannedEvent = {
  id: string;
  project: string;
  text: string;
  deliveries: readonly { webhook: string; id: string }[];
};

/**
 * Adds events to the feeds of their projects, with frozen bodies, and plans the deliveries to subscribed
 * webhooks: one statement. Seqs of a feed follow the order of `planned`, and that of commits, because the row
 * of the feed is locked from here to the commit; so it must be called last.
 * @returns the number of planned deliveries
 */
export const planWebhooks = async (work: Work, planned: readonly PlannedEvent[]): Promise<number> => {
  if (planned.length === 0) return 0;
  const { events, deliveries, webhooks } = newRows(planned);
  const now = work.now.toISOString();
  await sql`
    with e as materialized (
      select * from json_to_recordset(${asList(events)}::json) as x(project_id uuid, tenant uuid,
        place int, id uuid, type text, players uuid[], body text, created_at timestamptz,
        expires timestamptz)),
    counted as (select project_id, tenant, count(*) as n from e group by project_id, tenant),
    feed as (
      insert into webhook_feeds as f (project_id, tenant_id, last_seq)
      select project_id, tenant, n from counted order by project_id
      on conflict (project_id) do update set last_seq = f.last_seq + excluded.last_seq
      returning project_id, last_seq),
    numbered as materialized (
      select e.*, feed.last_seq - c.n + e.place as seq, ${CONCERNS_ERASED} as erased
      from e join feed on feed.project_id = e.project_id join counted c on c.project_id = e.project_id),
    kept as (
      insert into webhook_events (project_id, seq, tenant_id, id, type, players, body, created_at,
        expires_at)
      select project_id, seq, tenant, id, type, players, case when not erased then body end, created_at,
        expires
      from numbered)
    insert into webhook_deliveries (webhook_id, id, tenant_id, project_id, event_seq, event_id, event_type,
      status, due_at, next_attempt_at, created_at, updated_at, expires_at)
    select d.webhook, d.id, n.tenant, n.project_id, n.seq, n.id, n.type, 'pending', ${now}::timestamptz,
      ${now}::timestamptz, ${now}::timestamptz, ${now}::timestamptz, n.expires
    from json_to_recordset(${asList(deliveries)}::json)
      as d(project uuid, place int, webhook uuid, id uuid)
    join numbered n on n.project_id = d.project and n.place = d.place and not n.erased
    on conflict (webhook_id, id) do nothing`.execute(work.db);
  if (webhooks.size > 0) work.wakeWebhooks(webhooks);
  return deliveries.length;
};

const asList = (items: readonly string[]): string => `[${items.join(",")}]`;

/** Rows as JSON; an event's position is that among the new ones of its project, from 1. */
const newRows = (
  planned: readonly PlannedEvent[],
): { events: string[]; deliveries: string[]; webhooks: Set<string> } => {
  const places = new Map<string, number>();
  const webhooks = new Set<string>();
  const deliveries: string[] = [];
  const events = planned.map((event) => {
    const { project, text } = event;
    const place = (places.get(project) ?? 0) + 1;
    places.set(project, place);
    for (const { webhook, id } of event.deliveries) {
      webhooks.add(webhook);
      deliveries.push(`{"project":"${project}","place":${place},"webhook":"${webhook}","id":"${id}"}`);
    }
    return `{"place":${place},${text}}`;
  });
  return { events, deliveries, webhooks };
};

/**
 * Prepares the events for feeds and webhooks, in slices: one event may be 64 KiB, so it must be called where
 * no transaction is open.
 */
export const eventsFor = async (
  subscribers: readonly Subscribers[],
  happened: readonly Happened[],
  now: Date,
): Promise<PlannedEvent[]> => {
  if (subscribers.length === 0) return [];
  const byProject = new Map(subscribers.map((one) => [one.projectId, one]));
  const planned = await mapInSlices(happened, (event) => {
    const wanted = byProject.get(event.projectId);
    return wanted && plannedEvent(wanted, event, now);
  });
  return planned.filter((event) => event !== undefined);
};

const plannedEvent = (wanted: Subscribers, event: Happened, now: Date): PlannedEvent | undefined => {
  const { id, projectId: project, type } = event;
  if (!isWebhookType(type)) return undefined;
  const webhooks = wanted.webhooks.filter(({ events: patterns }) => isSubscribed(patterns, type));
  if (webhooks.length === 0 && !wanted.isFeedRead) return undefined;
  const body = webhookBody(event);
  if (body === undefined) return undefined;
  const row = {
    project_id: project,
    tenant: wanted.tenantId,
    id,
    type,
    players: playersOf(event),
    body,
    created_at: event.createdAt.toISOString(),
    expires: new Date(now.getTime() + wanted.keptMs).toISOString(),
  };
  const deliveries = webhooks.map(({ id: webhook }) => ({ webhook, id: deliveryId(webhook, event) }));
  return { id, project, text: JSON.stringify(row).slice(1, -1), deliveries };
};
