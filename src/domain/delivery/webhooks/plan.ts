import { sql } from "kysely";
import { idFor } from "../../kernel/ids.ts";
import { mapInSlices } from "../../kernel/slices.ts";
import type { Work } from "../../kernel/work.ts";
import { type Happened, webhookBody } from "./body.ts";
import { isSubscribed, isWebhookType } from "./catalogue/event-types.ts";
import { playersOf, concernsErased } from "./persons.ts";
import type { Subscribers } from "./subscribers.ts";

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

/** Whether an event `e` is about a person who was erased since it was committed: it is not delivered. */
const IS_OF_ERASED = concernsErased({
  projectId: sql`e.project`,
  type: sql`e.type`,
  players: sql`e.players`,
  createdAt: sql`e.at`,
});

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
      select * from json_to_recordset(${asList(events)}::json) as x(project uuid, tenant uuid,
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
    from json_to_recordset(${asList(deliveries)}::json)
      as d(project uuid, place int, webhook uuid, id uuid)
    join numbered n on n.project = d.project and n.place = d.place and not n.erased
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
    project,
    tenant: wanted.tenantId,
    id,
    type,
    players: playersOf(event),
    body,
    at: event.createdAt.toISOString(),
    expires: new Date(now.getTime() + wanted.keptMs).toISOString(),
  };
  const deliveries = webhooks.map(({ id: webhook }) => ({ webhook, id: deliveryId(webhook, event) }));
  return { id, project, text: JSON.stringify(row).slice(1, -1), deliveries };
};
