import { Group, Stack, Text } from "@mantine/core";
import { useRead } from "../api/hooks.ts";
import type { Answer, Row } from "../api/client.ts";
import { duration, nameOf, number, percent, words } from "../format.ts";
import { Bars } from "../ui/chart.tsx";
import { act, form } from "../ui/operations.tsx";
import { Hint, Section, Tiles, tilesOf } from "../ui/page.tsx";
import { List, PlainTable } from "../ui/table.tsx";
import { Catalogue, DefinitionForm, DRAFT, DraftPage } from "../ui/catalogue.tsx";

type Quest = Answer<"getQuest">;

const FIRST = "name key description steps stepMode rewards repeat availableFrom availableUntil".split(" ");

const METRIC = { eventTypes: ["level_finished"], aggregate: "count" };
const STEP = { key: "play", name: "Play three levels", kind: "EVENT", metric: METRIC, target: 3 };
const NEW = { key: "my-first-quest", name: "My first quest", steps: [STEP], rewards: { xp: 50 } };

export const Quests = () => (
  <Catalogue
    id="listQuests"
    one="quest"
    about="Goals with steps and rewards: once, daily, or for those who qualify."
    form={{ ...DRAFT, first: FIRST, initial: NEW }}
    hint="Something to do for players, with a reward at its end."
    filters={["search", "status", "category", "tag"]}
    columns={{
      Steps: ({ steps }) => steps.length,
      Again: ({ repeat }) => (repeat.mode === "NONE" ? "Once" : words(repeat.mode)),
    }}
    wide={["Again"]}
    tabs={{ reviews: ["To be reviewed", () => <Reviews />] }}
  />
);

type Review = Row<"listQuestReviews">;

/** What players have handed in, with what they say proves it. */
const Reviews = () => (
  <List
    id="listQuestReviews"
    filters={["status"]}
    defaults={{ status: "PENDING" }}
    refetchInterval={10_000}
    empty="Nothing waits for a review"
    dialog={[(review) => `Submission of ${nameOf(review)}`, submission]}
    columns={{
      Sent: "submittedAt",
      Player: nameOf,
      Quest: ({ questKey, stepKey }) => `${questKey} · ${stepKey}`,
      Evidence: ({ evidence }) => (
        <Text maw={320} truncate>
          {evidence}
        </Text>
      ),
      Status: "status",
    }}
    actions={decide}
  />
);

const submission = (review: Review, close: () => void) => (
  <Stack>
    <Text>{`${review.questKey}, step ${review.stepKey}`}</Text>
    {/* Text of a player: it is shown, and never followed by itself. */}
    <Text size="md" style={{ overflowWrap: "anywhere" }}>
      {review.evidence ?? "Without evidence"}
    </Text>
    {review.note && <Hint>{`${review.reviewedBy ?? ""}: ${review.note}`}</Hint>}
    <Group>{decide(review, close)}</Group>
  </Stack>
);

const decide = ({ id, status, playerId, questKey, stepKey }: Review, onDone?: () => void) => {
  if (status !== "PENDING") return null;
  const path = { playerId, questId: questKey, stepKey };
  const by = (decision: "APPROVE" | "REJECT") => ({ decision, submissionId: id });
  return [
    act("reviewPlayerQuestStep", "Approve", { path, body: by("APPROVE"), isMain: true, onDone }),
    form("reviewPlayerQuestStep", "Reject", {
      path,
      fixed: by("REJECT"),
      hidden: ["decision", "submissionId"],
      onDone,
    }),
  ];
};

export const QuestPage = ({ id }: { id: string }) => (
  <DraftPage
    one="quest"
    id={id}
    pages={(quest) => ({
      design: ["Design", () => <DefinitionForm one="quest" of={quest} first={FIRST} />],
      codes: quest.steps.some(hasPool) && ["Codes", () => <Codes quest={quest} />],
      stats: ["How it goes", () => <Stats id={id} />],
      players: ["Players", () => <QuestPlayers id={id} />],
    })}
  />
);

type Step = Quest["steps"][number];
const hasPool = (step: Step): boolean => step.kind === "CODE" && step.perPlayerCodes;

/** Steps that ask for a code of a player's own have a pool of them. */
const Codes = ({ quest: { id, steps } }: { quest: Quest }) => (
  <PlainTable
    name="Codes"
    rows={steps.filter(hasPool)}
    columns={{ Step: "name" }}
    actions={({ key }) =>
      form("addQuestCodes", "Add codes", { path: { questId: id, stepKey: key }, submit: "Add" })
    }
  />
);

/** How far players come: a funnel over the steps. */
const Stats = ({ id }: { id: string }) => {
  const { started, states, steps, averageSeconds } = useRead("getQuestStats", { path: { questId: id } });
  const share = (players: number) => (started > 0 ? percent(players / started) : "");
  const waits = (players: number) => (players > 0 ? `, ${number(players)} wait for a review` : "");
  return (
    <Stack>
      <Tiles
        of={{
          Started: started,
          ...tilesOf(states, share),
          "Takes on average": averageSeconds == null ? undefined : duration(averageSeconds),
        }}
      />
      <Section title="Step by step">
        <Bars
          rows={[
            { name: "Started", value: started },
            ...steps.map(({ name, done, waiting }) => ({
              name,
              value: done,
              note: share(done) + waits(waiting),
            })),
          ]}
        />
      </Section>
    </Stack>
  );
};

const QuestPlayers = ({ id }: { id: string }) => (
  <List
    id="listQuestPlayers"
    path={{ questId: id }}
    filters={["state", "cycleKey"]}
    to={({ playerId }) => `/players/${playerId}`}
    columns={{
      Player: nameOf,
      State: "state",
      Done: (row) => percent(row.percent / 100),
      Cycle: "cycleKey",
      Started: "startedAt",
      Completed: "completedAt",
    }}
    right={["Done"]}
    wide={["Cycle"]}
  />
);
