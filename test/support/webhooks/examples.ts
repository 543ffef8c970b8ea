import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { shapeOf, type WebhookEvent } from "../../../src/domain/delivery/webhooks/catalogue/catalogue.ts";

const ROOT = join(import.meta.dirname, "../../..");
const FILE = join(ROOT, "src/domain/delivery/webhooks/catalogue/examples.json");
const OXFMT = join(ROOT, "node_modules/.bin/oxfmt");

const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g;
const TIME = /^\d{4}-\d\d-\d\dT[\d:.]+Z$/;
const DATE = /\d{4}-\d\d-\d\d/g;
const DAY_MS = 86_400_000;
/** When the first example happens. */
const BASE_MS = Date.parse("2026-01-10T18:00:00.123Z");
const BASE_DAY = Math.floor(BASE_MS / DAY_MS);

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null;

/** Every value that is no list and no object, with the names that lead to it. */
const leavesOf = (value: unknown, path = ""): [path: string, value: unknown][] => {
  if (!isObject(value)) return [[path, value]];
  const inner = Object.entries(value).flatMap(([name, item]) => leavesOf(item, `${path}/${name}`));
  return inner.length > 0 ? inner : [[path, value]];
};

/** The names that an event has in it; lists count by what is in their elements, whatever their number. */
export const namesIn = (event: unknown): string[] =>
  [...new Set(leavesOf(event).map(([path]) => path.replaceAll(/\/\d+/g, "/*")))].toSorted();

const isTelling = (value: unknown): boolean =>
  isObject(value) ? Object.keys(value).length > 0 : value !== null && value !== "";
const tellingOf = ({ data }: WebhookEvent): number => Object.values(data).filter(isTelling).length;

/** Of several events of a type the one with the most that is told in it, and of equals the first. */
export const mostTelling = (events: readonly WebhookEvent[]): WebhookEvent =>
  events
    .toSorted((a, b) => (a.id < b.id ? -1 : 1))
    .reduce((most, one) => (tellingOf(one) > tellingOf(most) ? one : most));

type Replace = (value: unknown, name: string) => unknown;

const mapLeaves = (value: unknown, replace: Replace, name = ""): unknown => {
  if (Array.isArray(value)) return value.map((item) => mapLeaves(item, replace, name));
  if (!isObject(value)) return replace(value, name);
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, mapLeaves(item, replace, key)]));
};

const timesIn = (event: WebhookEvent): number[] => {
  const times = leavesOf(event).flatMap(([, value]) =>
    typeof value === "string" && TIME.test(value) ? [Date.parse(value)] : [],
  );
  return [...new Set(times)].toSorted((a, b) => b - a);
};

/** In minutes; beyond an hour in whole hours: how far the end of a day is off depends on when a test runs. */
const distanceOf = (ms: number): number => {
  const minutes = Math.round(ms / 60_000);
  return (Math.abs(minutes) > 60 ? Math.ceil(minutes / 60) * 60 : minutes) * 60_000;
};

/**
 * Puts the times of an event around one of 2026-01-10, in their order: midnights stay midnights, what is a
 * minute off or more stays that far off, and what is nearer before the event comes 100 ms apart.
 */
const shiftTimes = (event: WebhookEvent, at: number): ((text: string) => string) => {
  const created = Date.parse(event.createdAt);
  const createdAtMs = BASE_MS + at * 1_000;
  const days = BASE_DAY - Math.floor(created / DAY_MS);
  const near = timesIn(event).filter((time) => time <= created && created - time < 60_000);
  const shifted = (time: number): number => {
    if (time % DAY_MS === 0) return time + days * DAY_MS;
    const rank = near.indexOf(time);
    if (rank >= 0) return createdAtMs - rank * 100;
    return createdAtMs + distanceOf(time - created);
  };
  const shiftedDate = (date: string): string =>
    new Date(Date.parse(date) + days * DAY_MS).toISOString().slice(0, 10);
  return (text) =>
    TIME.test(text)
      ? new Date(shifted(Date.parse(text))).toISOString()
      : text.replaceAll(DATE, (date) => shiftedDate(date));
};

/** What chance has given, and how long a test took: by the name of the field. */
const FIXED: Record<string, Replace> = {
  code: (value) => (/^[A-Z2-9]{6}$/.test(String(value)) ? "K7WQ2M" : value),
  seed: () => "3f9a4c1be07d52862d41b7f0a9c6e853",
  durationSeconds: (value) => (value === null ? null : 0),
};

/** Ids as they might be, always the same. */
const stableIds = (): ((text: string) => string) => {
  const known = new Map<string, string>();
  return (text) =>
    text.replaceAll(UUID, (id) => {
      const number = (known.size + 1).toString(16).padStart(12, "0");
      if (!known.has(id)) known.set(id, `019ba9d2-4c00-7000-8000-${number}`);
      return known.get(id)!;
    });
};

/** The events as they are shown: nothing in them is other each time but what their making changes. */
const asShown = (events: readonly WebhookEvent[]): WebhookEvent[] => {
  const withStableIds = stableIds();
  return events.map((event, at) => {
    const withTimes = shiftTimes(event, at);
    const text: Replace = (value) => (typeof value === "string" ? withTimes(withStableIds(value)) : value);
    return mapLeaves(event, (value, name) => text(FIXED[name]?.(value, name) ?? value, name)) as WebhookEvent;
  });
};

/** Writes the examples of the catalogue, by type and in the order given; fields in the order of the shape. */
export const writeExamples = (examples: readonly (readonly [type: string, event: WebhookEvent])[]): void => {
  const shown = asShown(examples.map(([type, event]) => shapeOf(type)!.parse(event) as WebhookEvent));
  const byType = Object.fromEntries(examples.map(([type], at) => [type, shown[at]]));
  writeFileSync(FILE, JSON.stringify(byType, undefined, 2));
  execFileSync(OXFMT, ["--write", FILE]);
};
