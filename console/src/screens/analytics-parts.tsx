import { Button, Group, Modal, Select, Stack, TagsInput, Text, TextInput } from "@mantine/core";
import { useLocation } from "wouter";
import { useTo } from "../app/project.ts";
import { type Answer, download } from "../api/client.ts";
import { tellError, useAny } from "../api/hooks.ts";
import { useCan } from "../api/session.ts";
import { number, words } from "../format.ts";
import { type Filters } from "../ui/filters.ts";
import { FormButton } from "../ui/form.tsx";
import { Loaded } from "../ui/page.tsx";
import { When } from "../ui/small.tsx";
import { PlainTable, saveCsv } from "../ui/table.tsx";

const PERIODS = ["today", "yesterday", "7d", "30d", "90d", "mtd", "qtd", "ytd", "12mo", "all"];
const PERIOD_WORDS: Record<string, string> = {
  "7d": "7 days",
  "30d": "30 days",
  "90d": "90 days",
  mtd: "This month",
  qtd: "This quarter",
  ytd: "This year",
  "12mo": "12 months",
  all: "All time",
};

/** Which days a question is about: a usual range, or two days. */
export const Range = ({ filters, choose }: { filters: Filters; choose: (change: Filters) => void }) => (
  <>
    <Select
      label="Period"
      size="xs"
      w={130}
      data={[
        ...PERIODS.map((value) => ({ value, label: PERIOD_WORDS[value] ?? words(value) })),
        { value: "custom", label: "From … to …" },
      ]}
      value={filters["period"] ?? "30d"}
      onChange={(next) => choose({ period: next ?? "30d" })}
      allowDeselect={false}
    />
    {filters["period"] === "custom" &&
      ["from", "to"].map((name) => (
        <TextInput
          key={name}
          label={words(name)}
          size="xs"
          type="date"
          value={filters[name] ?? ""}
          onChange={(event) => choose({ [name]: event.currentTarget.value })}
        />
      ))}
  </>
);

export const rangeOf = ({ period, from, to }: Filters): Filters =>
  period === "custom" ? { ...(from ? { from } : {}), ...(to ? { to } : {}) } : { period: period ?? "30d" };

type ChoiceProps = {
  name: string;
  options: string[];
  filters: Filters;
  choose: (change: Filters) => void;
  label?: string;
};

export const Choice = ({ name, options, filters, choose, label = words(name) }: ChoiceProps) => (
  <Select
    label={label}
    size="xs"
    w={140}
    data={options.map((value) => ({ value, label: value === "none" ? "Nothing" : words(value) }))}
    value={filters[name] ?? options[0]!}
    onChange={(next) => next && choose({ [name]: next })}
    allowDeselect={false}
  />
);

/** A report as a file: what is on the screen, and all of it. */
export const SaveReport = ({ report, query }: { report: string; query: Filters }) => {
  const can = useCan();
  if (!can("exportAnalytics")) return null;
  const save = (format: string) =>
    void download("exportAnalytics", `${report}.${format}`, { query: { report, format, ...query } }).catch(
      tellError,
    );
  return (
    <Group gap={4} ml="auto">
      <Button size="xs" variant="default" onClick={() => save("csv")}>
        Save as CSV
      </Button>
      <FormButton
        id="createAnalyticsReport"
        label="Save this report"
        size="xs"
        variant="default"
        first={["name", "range", "schedule"]}
        hidden={["report", "parameters"]}
        fixed={{ report, parameters: query }}
        done="Saved"
      />
    </Group>
  );
};

/** Metrics one may choose; others can be typed, as the API reference names them. */
const METRICS = [
  "activePlayers",
  "newPlayers",
  "returningPlayers",
  "events",
  "eventsPerActivePlayer",
  "avgDau",
  "wau",
  "mau",
  "stickiness",
  "xpGranted",
  "levelUps",
  "badgesEarned",
  "questsStarted",
  "questsCompleted",
  "adventuresStarted",
  "adventuresCompleted",
  "matches",
  "messages",
  "webhookSuccessRate",
];

export const MetricsInput = ({ filters, choose }: Pick<ChoiceProps, "filters" | "choose">) => (
  <TagsInput
    label="Metrics"
    size="xs"
    miw={220}
    data={METRICS}
    value={(filters["metric"] ?? "").split(",").filter(Boolean)}
    onChange={(next) => choose({ metric: next.join(",") })}
    maxTags={10}
  />
);

export type Behind = { title: string; query: Filters };

/** The players behind a number: a list, a file, a segment. */
export const PlayersBehind = ({ behind, onClose }: { behind: Behind | undefined; onClose: () => void }) => {
  const to = useTo();
  const [, go] = useLocation();
  const can = useCan();
  const answer = useAny(
    "listAnalyticsPlayers",
    { query: { ...behind?.query, limit: "100" } },
    { enabled: behind !== undefined },
  );
  return (
    <Modal opened={behind !== undefined} onClose={onClose} title={behind?.title} size="xl">
      {behind && (
        <Loaded query={answer}>
          {(data: Answer<"listAnalyticsPlayers">) => (
            <Stack>
              <Group justify="space-between">
                <Text size="sm">{`${number(data.pagination.total)} players`}</Text>
                <Group gap={4}>
                  <Button size="xs" variant="default" onClick={() => saveCsv("players", data.data as never)}>
                    Save as CSV
                  </Button>
                  {can("createAnalyticsSegment") && (
                    <FormButton
                      id="createAnalyticsSegment"
                      label="Make a segment of them"
                      size="xs"
                      variant="default"
                      first={["name", "key"]}
                      hidden={["list", "funnel"]}
                      fixed={{ list: behind.query }}
                      done="The segment is there"
                    />
                  )}
                </Group>
              </Group>
              <PlainTable
                name="Players"
                rows={data.data}
                keyOf={({ playerId }) => playerId}
                onRow={({ playerId }) => go(to(`/players/${playerId}`))}
                columns={[
                  {
                    title: "Player",
                    cell: ({ displayName, externalUserId }) => displayName ?? externalUserId,
                  },
                  { title: "Level", cell: ({ level }) => number(level), isNumber: true },
                  { title: "XP", cell: ({ xp }) => number(xp), isNumber: true },
                  { title: "Last active", cell: ({ lastActiveAt }) => <When at={lastActiveAt} /> },
                ]}
              />
            </Stack>
          )}
        </Loaded>
      )}
    </Modal>
  );
};
