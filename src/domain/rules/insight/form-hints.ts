import type { Json } from "../../kernel/events/events.ts";

/** What fields hold the keys or names of, for editors that offer them. */
const REFERENCES: Readonly<Record<string, string>> = {
  currencyKey: "currency",
  badgeKey: "badge",
  streakKey: "streak",
  leaderboardKey: "leaderboard",
  rewardKey: "reward",
  boostKey: "boost",
  segmentKey: "segment",
  segmentKeys: "segment",
  addToSegments: "segment",
  removeFromSegments: "segment",
  eventType: "eventType",
  eventTypes: "eventType",
  metric: "metric",
  path: "path",
  property: "path",
};
/** Of a `key` whose kind is named by the field `entity` beside it. */
const BY_ENTITY = "entity";

const TITLES: Readonly<Record<string, string>> = {
  args: "Arguments",
  at: "Time",
  cron: "Schedule (cron)",
  id: "Id",
  max: "Maximum",
  meta: "Metadata",
  minPercent: "Minimum progress",
  minTier: "Minimum tier",
  op: "Operator",
  ref: "Value of",
  seconds: "Length",
  segmentKeys: "Segments",
};
const UNITS: readonly (readonly [end: RegExp, unit: string])[] = [
  [/seconds$/i, "seconds"],
  [/percent$/i, "%"],
];

const titleOf = (name: string): string => {
  const words = name
    .replace(/(?<=.)(Seconds|Percent|Key)$/, "")
    .replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
  return TITLES[name] ?? words.charAt(0).toUpperCase() + words.slice(1);
};

const referenceOf = (name: string, schema: Json, siblings: Json): Json => {
  const kind = name === "key" && BY_ENTITY in siblings ? BY_ENTITY : REFERENCES[name];
  // What is described elsewhere is a document, and no name.
  return kind === undefined || "$ref" in schema ? {} : { "x-ref": kind };
};

const hintsOf = (name: string, schema: Json, siblings: Json): Json => {
  const unit = UNITS.find(([end]) => end.test(name))?.[1];
  return {
    title: titleOf(name),
    ...(unit === undefined ? {} : { unit }),
    ...referenceOf(name, schema, siblings),
  };
};

const hinted = (properties: Json): Json =>
  Object.fromEntries(
    Object.entries(properties).map(([name, schema]) => [
      name,
      { ...hintsOf(name, schema as Json, properties), ...(withFormHints(schema) as Json) },
    ]),
  );

/**
 * Returns a JSON Schema in which each field has a `title`, a `unit` where it is measured in one, and `x-ref`
 * where it names something of the project: its kind, or `entity` where the field of that name has the kind.
 */
export const withFormHints = (schema: unknown): unknown => {
  if (Array.isArray(schema)) return schema.map(withFormHints);
  if (schema === null || typeof schema !== "object") return schema;
  return Object.fromEntries(
    Object.entries(schema).map(([name, part]) => [
      name,
      name === "properties" ? hinted(part as Json) : withFormHints(part),
    ]),
  );
};
