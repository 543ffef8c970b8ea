import type { Work } from "../../kernel/work.ts";
import type { Asked } from "../ask.ts";
import { type Population, readExperiment } from "../experiments/experiment.ts";
import { type Against, readGroups } from "../experiments/groups.ts";
import { playerValue } from "../experiments/player-values.ts";
import { readMetric } from "../trend-query.ts";
import type { ReportColumn, Row } from "./columns.ts";
import { computed } from "./report.ts";

const text = (name: string): ReportColumn => ({ name, type: "text" });
const number = (name: string): ReportColumn => ({ name, type: "number" });

/** The parameters of GET /analytics/experiments/{ruleId}, with the rule among them. */
export type ExperimentParameters = {
  ruleId: string;
  metric: readonly string[];
  against?: Against | undefined;
  population: Population;
};

/** The metrics of an experiment: a row each, with both groups. */
export const experimentReport = computed({
  columns: [
    ...["metric", "kind", "method"].map(text),
    ...["treatedPlayers", "treatedValue", "controlPlayers", "controlValue"].map(number),
    ...["difference", "low", "high", "confidence"].map(number),
  ],
  check: (asked: Asked, { metric }: ExperimentParameters) => {
    for (const name of metric) playerValue(asked, { text: name, metric: readMetric(name) });
  },
  read: async (work: Work, asked: Asked, query: ExperimentParameters) => {
    const { ruleId: ruleRef, metric, against, population } = query;
    const groups = await readGroups(work, asked.frame.projectId, { ruleRef, against });
    const metrics = metric.map((name) => ({ text: name, metric: readMetric(name) }));
    return readExperiment(work, asked, { groups, metrics, population });
  },
  rows: ({ metrics }) =>
    metrics.map(({ metric, kind, method, treated, control, difference }): Row => ({
      metric,
      kind,
      method,
      treatedPlayers: treated.players,
      treatedValue: treated.value,
      controlPlayers: control.players,
      controlValue: control.value,
      difference: difference?.value,
      low: difference?.low,
      high: difference?.high,
      confidence: difference?.confidence,
    })),
});
