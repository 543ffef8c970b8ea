import assert from "node:assert/strict";
import { type Answer, type Client, must } from "../http/client.ts";

type Ask = (question: string, query: Record<string, string>) => Promise<Answer["body"]>;
type Point = { date: string; value: number; complete: boolean };

const mean = (values: readonly number[]): number =>
  values.reduce((sum, value) => sum + value, 0) / values.length;

const isWeekend = ({ date }: Point): boolean => [0, 6].includes(new Date(date).getUTCDay());

/** Players come back less often the later. */
const assertRetention = async (ask: Ask): Promise<void> => {
  const { overall } = await ask("retention", { period: "90d", offsets: "1,7,30" });
  const rates = overall.map(({ rate }: { rate: number }) => rate) as [number, number, number];
  assert.ok(rates[0] > 0.1 && rates[0] > rates[1] && rates[1] > rates[2] && rates[2] > 0, String(rates));
};

/** More play at weekends, and more each week; most in the evening. */
const assertRhythm = async (ask: Ask): Promise<void> => {
  const daily = await ask("trends", { metric: "activePlayers", interval: "day", period: "30d" });
  const days = (daily.series[0].points as Point[]).filter(({ complete }) => complete);
  const ofDays = (wanted: boolean): number =>
    mean(days.filter((day) => isWeekend(day) === wanted).map(({ value }) => value));
  assert.ok(ofDays(true) > 1.2 * ofDays(false), `${ofDays(true)} and ${ofDays(false)}`);
  const hourly = await ask("trends", { metric: "events", interval: "hour", period: "30d" });
  const ofHours = (from: number, to: number): number =>
    (hourly.series[0].points as { start: string; value: number }[])
      .filter(({ start }) => new Date(start).getUTCHours() >= from && new Date(start).getUTCHours() < to)
      .reduce((sum, { value }) => sum + value, 0);
  assert.ok(ofHours(18, 22) > 3 * ofHours(2, 12), `${ofHours(18, 22)} and ${ofHours(2, 12)}`);
  const { metrics } = await ask("overview", { period: "30d" });
  assert.ok(metrics.newPlayers.value > metrics.newPlayers.previous, JSON.stringify(metrics.newPlayers));
};

/** Each step of the funnel has fewer players than the one before. */
const assertFunnel = async (ask: Ask): Promise<void> => {
  const steps = "session_started,level_finished,gems_found,boss_defeated";
  const funnel = await ask("funnels", { steps, period: "90d" });
  const players = funnel.steps.map((step: { players: number }) => step.players) as number[];
  assert.equal(players.length, 4);
  for (const [i, count] of players.entries())
    assert.ok(count > 0 && (i === 0 || count < players[i - 1]!), String(players));
};

/** Players whom the rule of the bonus leaves out come less often, and not by chance. */
const assertExperiment = async (ask: Ask): Promise<void> => {
  const found = await ask("experiments/comeback-bonus", { metric: "event:session_started", period: "90d" });
  const [{ treated, control, difference }] = found.metrics;
  assert.ok(treated.players > 100 && control.players > 100, JSON.stringify(found));
  assert.ok(difference.low > 0, JSON.stringify(difference));
};

/** Asserts that analytics of a server's demo look as those of a game do. */
export const assertPictures = async (api: Client, key: string): Promise<void> => {
  const ask: Ask = async (question, query) =>
    must(
      await api.get(`/api/v1/analytics/${question}?${new URLSearchParams(query).toString()}`, { key }),
      200,
    );
  for (const one of [assertRetention, assertRhythm, assertFunnel, assertExperiment]) await one(ask);
};
