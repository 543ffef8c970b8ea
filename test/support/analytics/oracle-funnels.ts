import {
  type AskedOracle,
  byValue,
  list,
  numberOf,
  type Oracle,
  type OracleRow,
  quote,
  shareOf,
  valueOf,
} from "./oracle.ts";

/** Funnels, as the guide of analytics defines them, in the SQL of DuckDB: all chains, and then the best. */

type Step = { eventType: string; where?: { "properties.team": string[] } };

/** A funnel as a body asks for it. The window is in minutes, and the breakdown is by team. */
export type OracleFunnel = AskedOracle & {
  steps: readonly [Step, ...Step[]];
  order: "ordered" | "strict" | "any";
  window: `${number}m`;
  exclude: readonly { eventType: string; fromStep: number; toStep: number }[];
  breakdown?: { property: "team"; limit: number };
};

const isStep = ({ eventType, where }: Step): string =>
  `x.type = ${quote(eventType)}${where ? ` and x.value in ${list(where["properties.team"])}` : ""}`;

const windowOf = ({ window }: OracleFunnel): number => Number.parseInt(window, 10) * 60_000;

/** Chains of so many steps, by one event each: their times, and which events of the player they are. */
const chainsOf = ({ steps: [first, ...others], ...funnel }: OracleFunnel, within: string): string => {
  const isNext = funnel.order === "strict" ? "x.n = used[-1] + 1" : "not list_contains(used, x.n)";
  const longer = others.map(
    (step, i) => `c${i + 2} as (
      select c.usr, c.value, list_append(t, x.ms) as t, list_append(used, x.n) as used, ${i + 2} as level
      from c${i + 1} c join x on x.usr = c.usr and ${isStep(step)} and ${isNext}
        and x.ms between t[-1] and t[1] + ${windowOf({ ...funnel, steps: [first] })}),`,
  );
  return `
    c1 as (
      select usr, value, [ms] as t, [n] as used, 1 as level from x where ${isStep(first)} and ${within}),
    ${longer.join("")}
    chains as (from c1 ${others.map((_, i) => `union all from c${i + 2}`).join(" ")})`;
};

/** Windows that begin with an event of a step: of each type, as many steps are done as there are events. */
const windowsOf = (funnel: OracleFunnel, within: string): string => {
  const types = [...Map.groupBy(funnel.steps, ({ eventType }) => eventType)];
  const done = types.map(
    ([type, { length }]) => `least(${length}, count(*) filter (x.type = ${quote(type)}))`,
  );
  return `
    b as (select * from x where ${within} and type in ${list(types.map(([type]) => type))}),
    chains as (
      select b.usr, b.value, [b.ms] as t, [b.n] as used, ${done.join(" + ")} as level
      from b join x on x.usr = b.usr and x.ms between b.ms and b.ms + ${windowOf(funnel)} group by all)`;
};

/** Of each player the longest chain, of equals the earliest. */
const chainOfEach = (oracle: Oracle, funnel: OracleFunnel): Promise<OracleRow[]> => {
  const within = `d between ${quote(funnel.from)} and ${quote(funnel.to)}`;
  const isVoid = funnel.exclude.map(
    ({ eventType, fromStep, toStep }) => `level >= ${toStep} and exists (
      from x where x.usr = f.usr and x.type = ${quote(eventType)} and x.ms > t[${fromStep}] and x.ms < t[${toStep}])`,
  );
  const gaps = funnel.steps.map((_, i) => `median(t[${i + 1}] - t[${i}]) over () as gap${i}`);
  return oracle.ask(
    funnel,
    `, x as (
      select usr, type, d, epoch_ms(ts) as ms, ${valueOf("team")} as value,
        row_number() over (partition by usr order by ts, seq) as n
      from e),
    ${(funnel.order === "any" ? windowsOf : chainsOf)(funnel, within)},
    f as (
      from chains qualify row_number() over (partition by usr, used[1] order by level desc, t, used) = 1),
    best as (
      from f where not (${isVoid[0] ?? "false"})
      qualify row_number() over (partition by usr order by level desc, t, used) = 1)
    select usr, value, level, 0 as i, 1 as size, ${gaps.slice(1).join(", ")},
      (t[1] + ${windowOf(funnel)} >= epoch_ms(${quote(funnel.asOf)}::timestamptz))::int as open
    from best`,
  );
};

/** Returns the numbers of a funnel as they are answered, and the players at a step. */
export const funnelBy = async (oracle: Oracle, funnel: OracleFunnel) => {
  const { steps, order, breakdown } = funnel;
  const rows = await chainOfEach(oracle, funnel);
  const playersAt = (step: number, state: string, of: readonly OracleRow[] = rows): string[] => {
    const isThere = (level: number): boolean =>
      state === "completed" ? level >= step : level === step && step < steps.length;
    return of.filter((row) => isThere(numberOf(row, "level"))).map(({ usr }) => String(usr));
  };
  const counts = (of: readonly OracleRow[]): number[] =>
    steps.map((_, i) => playersAt(i + 1, "completed", of).length);
  const players = counts(rows);
  const rates = players.map((count) => shareOf(count, players[0]!));
  const medians = steps.map((_, i) => rows[0]?.[`gap${i}`] ?? null);
  const answer = {
    steps: steps.map(({ eventType }, i) => ({
      index: i + 1,
      eventType: order === "any" ? null : eventType,
      label: order === "any" ? `${i + 1} of ${steps.length}` : null,
      players: players[i]!,
      fromStart: rates[i]!,
      fromPrevious: shareOf(players[i]!, players[Math.max(0, i - 1)]!),
      dropOff: playersAt(i + 1, "dropped").length,
      medianSecondsFromPrevious: medians[i] === null ? null : Math.round(Number(medians[i])) / 1_000,
    })),
    entered: players[0]!,
    converted: players.at(-1)!,
    rate: rates.at(-1)!,
    openEntries: rows.filter(({ open }) => open === 1).length,
    breakdown:
      breakdown && byValue(rows, breakdown.limit).map(([value, own]) => ({ value, players: counts(own) })),
  };
  return { answer, playersAt };
};
