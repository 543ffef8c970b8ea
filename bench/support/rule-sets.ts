import { randomUUID } from "node:crypto";
import { Engine } from "json-rules-engine";
import { LogicEngine } from "json-logic-engine";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import type { Turn } from "../../src/domain/evaluation/turn.ts";
import { compileRules, type PublishedRule } from "../../src/domain/evaluation/running/compile.ts";
import { RuleDocument } from "../../src/domain/evaluation/language/document.ts";
import { aPass, aPlan, aPlayerState } from "../../test/support/rules/plan.ts";

/** The same rules for several engines, and the events that they are tried on. */

export const EVENT_TYPES = 20;
const COUNTRIES = ["SE", "DE", "FR", "IT", "ES", "US", "BR", "IN", "JP", "NZ"];
const DEVICES = ["ios", "android", "web", "tv"];
const TAGS = ["staff", "vip", "beta", "trial"];

/** Numbers from 0 to 1 by a seed (mulberry32), so that every run has the same rules. */
export const createRandom = (seed: number) => {
  let state = seed;
  return (): number => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
};
type Random = ReturnType<typeof createRandom>;

const pick = <T>(random: Random, from: readonly T[]): T => from[Math.floor(random() * from.length)]!;
const upTo = (random: Random, max: number): number => Math.floor(random() * max);

/**
 * A rule of five conditions: all of a score, any of two about the device and the player, none of two about
 * the player's tags and country.
 */
export type Spec = {
  key: string;
  eventType: string;
  score: number;
  devices: string[];
  level: number;
  tag: string;
  country: string;
};

const typeName = (number: number): string => `type.${number}`;

/** Rules spread evenly over event types. `types` narrows them to a range of types. */
export const makeSpecs = (
  random: Random,
  count: number,
  types: readonly [first: number, past: number] = [0, EVENT_TYPES],
): Spec[] =>
  Array.from({ length: count }, (_, i) => ({
    key: `rule-${types[0]}-${i}`,
    eventType: typeName(types[0] + (i % (types[1] - types[0]))),
    score: upTo(random, 120),
    devices: [pick(random, DEVICES), pick(random, DEVICES)],
    level: 1 + upTo(random, 30),
    tag: pick(random, TAGS),
    country: pick(random, COUNTRIES),
  }));

/** An event and its player as plain fields, which is what engines without a notion of either get. */
export type Facts = {
  type: string;
  score: number;
  device: string;
  level: number;
  tags: string[];
  country: string;
};

export const makeFacts = (
  random: Random,
  count: number,
  types: readonly [first: number, past: number] = [0, EVENT_TYPES],
): Facts[] =>
  Array.from({ length: count }, () => ({
    type: typeName(types[0] + upTo(random, types[1] - types[0])),
    score: upTo(random, 100),
    device: pick(random, DEVICES),
    level: 1 + upTo(random, 30),
    tags: TAGS.filter(() => random() < 0.25),
    country: pick(random, COUNTRIES),
  }));

/** Something that says which rules match; `prepare` is outside the clock. */
export type Contestant<Event> = {
  name: string;
  prepare(facts: Facts): Event;
  /** Keys of the rules that match. */
  match(event: Event): string[] | Promise<string[]>;
};

const conditionsOf = ({ score, devices, level, tag, country }: Spec): Json => ({
  all: [
    { type: "event_property", path: "score", op: "gte", value: score },
    {
      any: [
        { type: "event_property", path: "device", op: "in", value: devices },
        { type: "player_property", field: "level", op: "gte", value: level },
      ],
    },
    {
      none: [
        { type: "player_property", field: "tags", op: "contains", value: tag },
        { type: "player_property", field: "country", op: "eq", value: country },
      ],
    },
  ],
});

/** A published rule of ours; `conditions` in the place of its own. */
export const publishedOf = (spec: Spec, conditions: Json = conditionsOf(spec)): PublishedRule => {
  const definition = RuleDocument.parse({
    key: spec.key,
    name: spec.key,
    triggers: [{ kind: "EVENT", eventTypes: [spec.eventType] }],
    conditions,
    actions: [{ type: "grant_xp", amount: 1 }],
  });
  return { id: randomUUID(), key: spec.key, version: 1, createdAt: new Date(0), definition };
};

const plan = aPlan();

export const turnOf = ({ type, level, tags, country, ...properties }: Facts): Turn => {
  const player = aPlayerState({ level, tags, country });
  return aPass({ plan, player, event: { type, properties } }).turn;
};

/** Ours: rules by event type and property, each one closure. */
export const laurelOf = (rules: readonly PublishedRule[], name = "laurel"): Contestant<Turn> => {
  const ruleSet = compileRules(rules);
  return {
    name,
    prepare: turnOf,
    match: (turn) => {
      const matched: string[] = [];
      for (const rule of ruleSet.candidates(turn.event)) if (rule.test(turn)) matched.push(rule.key);
      return matched;
    },
  };
};

const byType = <T>(specs: readonly Spec[], make: (specs: readonly Spec[]) => T): Map<string, T> =>
  new Map([...Map.groupBy(specs, ({ eventType }) => eventType)].map(([type, of]) => [type, make(of)]));

const rulesEngineOf = (specs: readonly Spec[], isTyped: boolean): Engine => {
  const engine = new Engine([], { allowUndefinedFacts: true });
  for (const { key, eventType, score, devices, level, tag, country } of specs) {
    const typed = isTyped ? [{ fact: "type", operator: "equal", value: eventType }] : [];
    const any = [
      { fact: "device", operator: "in", value: devices },
      { fact: "level", operator: "greaterThanInclusive", value: level },
    ];
    const not = {
      any: [
        { fact: "tags", operator: "contains", value: tag },
        { fact: "country", operator: "equal", value: country },
      ],
    };
    const scored = { fact: "score", operator: "greaterThanInclusive", value: score };
    engine.addRule({ conditions: { all: [...typed, scored, { any }, { not }] }, event: { type: key } });
  }
  return engine;
};

/** json-rules-engine with one engine of all rules; the type is a condition more. */
export const jsonRulesOf = (specs: readonly Spec[]): Contestant<Facts> => {
  const engine = rulesEngineOf(specs, true);
  return {
    name: "json-rules-engine",
    prepare: (facts) => facts,
    match: async (facts) => (await engine.run(facts)).events.map(({ type }) => type),
  };
};

/** json-rules-engine with an engine for each event type, as somebody who knows it would do. */
export const jsonRulesByTypeOf = (specs: readonly Spec[]): Contestant<Facts> => {
  const engines = byType(specs, (of) => rulesEngineOf(of, false));
  return {
    name: "json-rules-engine by type",
    prepare: (facts) => facts,
    match: async (facts) => {
      const found = await engines.get(facts.type)?.run(facts);
      return found?.events.map(({ type }) => type) ?? [];
    },
  };
};

/** json-logic-engine, which compiles rules to JavaScript, with rules by event type. */
export const jsonLogicByTypeOf = (specs: readonly Spec[]): Contestant<Facts> => {
  const engine = new LogicEngine();
  const variable = (name: string) => ({ var: name });
  const compiled = byType(specs, (of) =>
    of.map(({ key, score, devices, level, tag, country }) => ({
      key,
      test: engine.build({
        and: [
          { ">=": [variable("score"), score] },
          { or: [{ in: [variable("device"), devices] }, { ">=": [variable("level"), level] }] },
          { "!": { or: [{ in: [tag, variable("tags")] }, { "===": [variable("country"), country] }] } },
        ],
      }) as (facts: Facts) => boolean,
    })),
  );
  return {
    name: "json-logic-engine by type",
    prepare: (facts) => facts,
    match: (facts) => {
      const matched: string[] = [];
      for (const { key, test } of compiled.get(facts.type) ?? []) if (test(facts)) matched.push(key);
      return matched;
    },
  };
};
