import { Alert, Group, Select, SimpleGrid, Stack, Text } from "@mantine/core";
import { useRead } from "../api/hooks.ts";
import { count, duration, number, percent, words } from "../format.ts";
import { Bars } from "../ui/chart.tsx";
import { useFilters } from "../ui/filters.tsx";
import { ButtonSize, Empty, Loaded, press, Section, Tiles } from "../ui/page.tsx";
import { PlainTable } from "../ui/table.tsx";
import { SaveReport, useBehind, useReport } from "./analytics-parts.tsx";

export const Funnels = () => {
  const [dialog, showBehind] = useBehind();
  const { query, isReady, answer, controls } = useReport({
    report: "funnels",
    id: "getAnalyticsFunnel",
    names: ["steps", "window", "order"],
    usual: { window: "7d" },
    isReady: ({ steps }) => steps?.includes(",") ?? false,
  });
  return (
    <Stack>
      {controls}
      {!isReady ? (
        <Empty title="How far do players come?">
          Choose at least two events that lead somewhere, such as signing up, playing and buying.
        </Empty>
      ) : (
        <Loaded query={answer}>
          {(data) => (
            <Stack>
              <Tiles of={{ Began: data.entered, "Came to the end": [data.converted, percent(data.rate)] }} />
              <Section title="Step by step">
                <Bars
                  rows={data.steps.map(
                    ({ eventType, label, players, fromPrevious, medianSecondsFromPrevious: seconds }) => ({
                      name: label ?? eventType ?? "",
                      value: players,
                      note: `${percent(fromPrevious)}${seconds == null ? "" : `, after ${duration(seconds)}`}`,
                    }),
                  )}
                />
                <ButtonSize value="compact-xs">
                  <Group gap="xs">
                    {data.steps.slice(0, -1).map(({ index, eventType, dropOff }) => {
                      const lost = { ...query, of: "funnels", step: String(index), state: "dropped" };
                      const show = () => showBehind(`Lost after ${eventType}`, lost);
                      return press(`${number(dropOff)} lost after ${eventType}`, show, { key: index });
                    })}
                  </Group>
                </ButtonSize>
              </Section>
            </Stack>
          )}
        </Loaded>
      )}
      {dialog}
    </Stack>
  );
};

export const Segments = () => {
  const { total, lastDay, groups } = useRead("getAnalyticsSegments", { query: { group: "all" } as never });
  const [dialog, showBehind] = useBehind();
  return (
    <Stack>
      <Group>
        <Text>{`${count(total, "players")}, as of ${lastDay}`}</Text>
        <SaveReport report="segments" query={{}} />
      </Group>
      <SimpleGrid cols={{ base: 1, md: 2 }}>
        {groups.map(({ key: group, segments: found }) => {
          const bars = (found as any[]).map(({ key, label, players, count: size = 0 }) => {
            const name = label ?? words(key);
            const value = players ?? size;
            const onClick = () => showBehind(name, { of: "segments", group, segment: key });
            return { name, value, note: percent(value / Math.max(1, total)), onClick };
          });
          return (
            <Section key={group} title={words(group)}>
              <Bars rows={bars} />
            </Section>
          );
        })}
      </SimpleGrid>
      {dialog}
    </Stack>
  );
};

export const Experiments = () => {
  const { data: rules } = useRead("listRules", { query: { limit: 100 } });
  const [{ rule }, chooseRule] = useFilters();
  const tried = rules.filter(({ published }) => {
    const { holdoutPercent, percent: share } = published?.rollout ?? {};
    return (holdoutPercent ?? 0) > 0 || (share ?? 100) < 100;
  });
  const ruleId = (tried.find(({ id }) => id === rule) ?? tried[0])?.id ?? "";
  const { answer, controls } = useReport({
    id: "getAnalyticsExperiment",
    path: { ruleId },
    isReady: () => ruleId !== "",
    names: ["against", "metric"],
    usual: { metric: "activePlayers,events,xpGranted" },
    children: (
      <Select
        label="Rule"
        size="xs"
        data={tried.map(({ id, name }) => ({ value: id, label: name }))}
        value={ruleId}
        onChange={(next) => chooseRule({ rule: next ?? "" })}
        allowDeselect={false}
      />
    ),
  });
  if (tried.length === 0)
    return (
      <Empty title="No rule is tried on a part of the players">
        Give a rule a rollout with players held back, and compare them here.
      </Empty>
    );
  return (
    <Stack>
      {controls}
      <Loaded query={answer}>
        {({ treated, control, notes, metrics }) => (
          <Stack>
            <Text>{`${count(treated, "players")} with the rule, ${number(control)} without`}</Text>
            {notes.map((note) => (
              <Alert key={note} color="yellow">
                {note}
              </Alert>
            ))}
            <PlainTable
              name="Metrics"
              rows={metrics}
              columns={{
                Metric: ({ metric }) => words(metric),
                "With the rule": (row) => shownBy(row.kind)(row.treated.value),
                Without: (row) => shownBy(row.kind)(row.control.value),
                Difference: ({ difference, kind }) => difference && differenceText(difference, kind),
              }}
              right={["With the rule", "Without", "Difference"]}
            />
          </Stack>
        )}
      </Loaded>
    </Stack>
  );
};

/** Shares are shown as such. */
const shownBy = (kind: string) => (kind === "share" ? percent : number);

type Difference = { value: number; low: number; high: number };

const differenceText = ({ value, low, high }: Difference, kind: string): string => {
  const show = shownBy(kind);
  const isSure = low > 0 || high < 0;
  return `${show(value)} (${show(low)} to ${show(high)})${isSure ? "" : ", may be chance"}`;
};
