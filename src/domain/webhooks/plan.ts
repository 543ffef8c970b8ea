import { sql } from "kysely";
import { idFor } from "../ids.ts";
import type { Work } from "../work.ts";
import { type Happened, webhookBody } from "./body.ts";
import { isSubscribed, isWebhookType } from "./catalogue/event-types.ts";
import { playersOf, tellsOfErased } from "./persons.ts";
import type { Subscribers } from "./subscribers.ts";

/** The id of what one webhook is sent of one event: the same whoever plans it, sorted by the event's time. */
export const deliveryId = (webhookId: string, event: { id: string; createdAt: Date }): string =>
  idFor(event.createdAt.getTime(), `${webhookId}:${event.id}`);

type NewEvent = {
  project: string;
  tenant: string;
  /** Its place among the new ones of the project, from 1. */
  place: number;
  id: string;
  type: string;
  players: string[];
  body: string;
  at: string;
  expires: string;
};
/** Whether an event `e` is about somebody who was erased since it was committed: it is told to nobody. */
const IS_OF_ERASED = tellsOfErased({
  projectId: sql`e.project`,
  type: sql`e.type`,
  players: sql`e.players`,
  createdAt: sql`e.at`,
});

type NewDelivery = { project: string; place: number; webhook: string; id: string };

/**
 * Puts events into the feeds of their projects, their bodies frozen, and plans the deliveries to webhooks
 * that want them: one statement. Numbers of a feed follow the order of `happened`, and that of commits,
 * because the row of the feed is locked until this one; so call it last.
 * @returns how many deliveries were planned
 */
export const planWebhooks = async (
  work: Work,
  subscribers: readonly Subscribers[],
  happened: readonly Happened[],
): Promise<number> => {
  const { events, deliveries } = newRows(work, subscribers, happened);
  if (events.length === 0) return 0;
  const now = work.now.toISOString();
  await sql`
    with e as materialized (
      select * from json_to_recordset(${JSON.stringify(events)}::json) as x(project uuid, tenant uuid,
        place int,
        id uuid, type text, players uuid[], body text, at timestamptz, expires timestamptz)),
    counted as (select project, tenant, count(*) as n from e group by project, tenant),
    feed as (
      insert into webhook_feeds as f (project_id, tenant_id, last_seq)
      select project, tenant, n from counted order by project
      on conflict (project_id) do update set last_seq = f.last_seq + excluded.last_seq
      returning project_id, last_seq),
    numbered as materialized (
      select e.*, feed.last_seq - c.n + e.place as seq, ${IS_OF_ERASED} as erased
      from e join feed on feed.project_id = e.project join counted c on c.project = e.project),
    kept as (
      insert into webhook_events (project_id, seq, tenant_id, id, type, players, body, created_at,
        expires_at)
      select project, seq, tenant, id, type, players, case when not erased then body end, at, expires
      from numbered)
    insert into webhook_deliveries (webhook_id, id, tenant_id, project_id, event_seq, event_id, event_type,
      status, due_at, next_attempt_at, created_at, updated_at, expires_at)
    select d.webhook, d.id, n.tenant, n.project, n.seq, n.id, n.type, 'pending', ${now}::timestamptz,
      ${now}::timestamptz, ${now}::timestamptz, ${now}::timestamptz, n.expires
    from json_to_recordset(${JSON.stringify(deliveries)}::json)
      as d(project uuid, place int, webhook uuid, id uuid)
    join numbered n on n.project = d.project and n.place = d.place and not n.erased
    on conflict (webhook_id, id) do nothing`.execute(work.db);
  if (deliveries.length > 0) work.ringWebhooks(new Set(deliveries.map(({ webhook }) => webhook)));
  return deliveries.length;
};

const newRows = (
  { now }: Work,
  subscribers: readonly Subscribers[],
  happened: readonly Happened[],
): { events: NewEvent[]; deliveries: NewDelivery[] } => {
  const byProject = new Map(subscribers.map((one) => [one.projectId, one]));
  const places = new Map<string, number>();
  const events: NewEvent[] = [];
  const deliveries: NewDelivery[] = [];
  for (const event of happened) {
    const { projectId: project, type } = event;
    const wanted = byProject.get(project);
    if (!wanted || !isWebhookType(type)) continue;
    const webhooks = wanted.webhooks.filter(({ events: patterns }) => isSubscribed(patterns, type));
    if (webhooks.length === 0 && !wanted.isFeedRead) continue;
    const body = webhookBody(event);
    if (body === undefined) continue;
    const place = (places.get(project) ?? 0) + 1;
    places.set(project, place);
    events.push({
      project,
      tenant: wanted.tenantId,
      place,
      id: event.id,
      type,
      players: playersOf(event),
      body,
      at: event.createdAt.toISOString(),
      expires: new Date(now.getTime() + wanted.keptMs).toISOString(),
    });
    for (const { id: webhook } of webhooks)
      deliveries.push({ project, place, webhook, id: deliveryId(webhook, event) });
  }
  return { events, deliveries };
};
