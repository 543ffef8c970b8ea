import { Group, Stack } from "@mantine/core";
import { useCan, useGo, useRead } from "../api/hooks.ts";
import type { Answer, Row } from "../api/client.ts";
import { useMirror } from "../api/rooms.ts";
import { count, nameOf, number, words } from "../format.ts";
import { act, ask, form, SaveFile } from "../ui/operations.tsx";
import { LiveTable } from "../ui/live.tsx";
import { Empty, Hint, Live, Page } from "../ui/page.tsx";
import { List, Rows } from "../ui/table.tsx";
import { type Columns, Facts } from "../ui/cells.tsx";
import { Archive, Catalogue, DefinitionForm } from "../ui/catalogue.tsx";

type Board = Answer<"getLeaderboard">;

const FIRST = ["name", "key", "metric", "sort", "period", "prizes"];
const NEW = { key: "weekly-xp", name: "XP of the week", metric: { source: "XP" } };

export const Leaderboards = () => {
  const can = useCan();
  return (
    <Catalogue
      id="listLeaderboards"
      one="leaderboard"
      form={{ first: FIRST, initial: NEW }}
      columns={{
        "Ranks by": ({ metric }: any) => words(metric.source ?? metric.aggregate ?? ""),
        Period: ({ period }) => words(period.kind),
      }}
      wide={["Period"]}
      tabs={{ reviews: can("listScoreReviews") && ["Held scores", () => <Reviews />] }}
    />
  );
};

/** Scores beyond a board's bounds, which somebody looks at before they count. */
const Reviews = () => (
  <List
    id="listScoreReviews"
    filters={["status"]}
    defaults={{ status: "OPEN" }}
    empty="No score is held"
    columns={{
      When: "submittedAt",
      Leaderboard: "leaderboardKey",
      Player: "externalUserId",
      Score: "score",
      Why: "violation",
      Status: "status",
    }}
    actions={({ id, status }) =>
      status === "OPEN" && [
        act("decideScoreReview", "Accept", {
          path: { reviewId: id },
          body: { decision: "ACCEPT" },
          isMain: true,
        }),
        act("decideScoreReview", "Reject", { path: { reviewId: id }, body: { decision: "REJECT" } }),
      ]
    }
  />
);

export const LeaderboardPage = ({ id }: { id: string }) => {
  const board = useRead("getLeaderboard", { path: { leaderboardId: id } });
  const isBroken = (board.breakdownAttribute ?? board.breakdownProperty) != null;
  const path = { leaderboardId: board.id };
  const first = ["name", "description", "prizes", "bounds"];
  return (
    <Page
      title={board.name}
      parent={["Leaderboards", "/leaderboards"]}
      actions={<Actions board={board} />}
      pages={{
        live: ["Live", () => <LivePlaces board={board} />],
        all: ["All places", () => <Places path={path} />],
        periods: ["Periods and prizes", () => <Periods path={path} />],
        values: isBroken && ["By value", () => <Values path={path} />],
        design: ["Design", () => <DefinitionForm one="leaderboard" of={board} first={first} />],
      }}
    >
      <Facts
        of={board}
        show={{
          Status: "status",
          Key: "key",
          "Better is": ({ sort }) => (sort === "DESC" ? "more" : "less"),
          Period: ({ period }) => words(period.kind),
        }}
      />
    </Page>
  );
};

const Actions = ({ board }: { board: Board }) => {
  const { id, key, status } = board;
  const path = { leaderboardId: id };
  return (
    <>
      <SaveFile id="exportLeaderboard" name={`${key}.csv`} path={path} query={{ format: "csv" }}>
        Save as CSV
      </SaveFile>
      {status === "PAUSED" && act("resumeLeaderboard", "Resume", { path, done: "Running again" })}
      {status === "ACTIVE" && act("pauseLeaderboard", "Pause", { path })}
      {status !== "ARCHIVED" && [
        act("rebuildLeaderboard", "Rebuild", { path, done: "Read from the database again" }),
        form("resetLeaderboard", "End the period now", {
          path,
          about: "The period closes with its places, and a new one begins.",
          submit: "End it",
          done: "A new period has begun",
        }),
      ]}
      <Archive one="leaderboard" of={board} text="It counts nothing any more and leaves the lists." />
    </>
  );
};

type Place = Row<"listLeaderboardEntries">;
const PLACES: Columns<Place> = { Rank: "rank", Player: nameOf, Score: "score" };

/** The first hundred places, as the room of the board shows them. */
const LivePlaces = ({ board }: { board: Board }) => {
  const go = useGo();
  const options = { leaderboardKey: board.key, top: 100 };
  const { shown, ...watched } = useMirror("leaderboard", options, (state) => ({
    places: Array.from(state.top as Iterable<Place>, (place) => ({ ...place })),
    size: state.size as number,
    periodKey: state.periodKey as string,
  }));
  const places = shown?.places ?? [];
  const open = ({ playerId }: Place) => go(`/players/${playerId}`);
  return (
    <Stack gap="xs">
      <Group>
        <Live {...watched} />
        <Hint>
          {shown && `${count(shown.size, "players")}${shown.periodKey ? `, period ${shown.periodKey}` : ""}`}
        </Hint>
      </Group>
      {shown && places.length === 0 ? (
        <Empty title="Nobody is on it yet" />
      ) : (
        <LiveTable name="Places" rows={places} columns={PLACES} onRow={open} />
      )}
    </Stack>
  );
};

type Props = { path: { leaderboardId: string } };

const Places = ({ path }: Props) => (
  <List
    id="listLeaderboardEntries"
    path={path}
    filters={["period", "around", "board"]}
    limit={50}
    to={({ playerId }) => `/players/${playerId}`}
    empty="Nobody is on it yet"
    columns={{ Rank: "rank", Player: nameOf, Score: "score", Reached: "reachedAt" }}
    wide={["Reached"]}
    actions={(row) =>
      ask("removeLeaderboardPlayer", "Take off", {
        path: { ...path, playerId: row.playerId },
        body: { ban: true } as never,
        title: `Take ${nameOf(row)} off?`,
        done: "Taken off the leaderboard",
        text: "Their score goes, and later scores do not count on this leaderboard.",
      })
    }
  />
);

const Periods = ({ path }: Props) => (
  <List
    id="listLeaderboardPeriods"
    path={path}
    filters={["status"]}
    dialog={[
      ({ key }) => `Places of ${key}`,
      ({ key, status }) =>
        status === "CLOSED" && (
          <Rows
            id="listLeaderboardResults"
            given={{ path: { ...path, periodKey: key }, query: { limit: 100 } }}
            keyOf={({ rank, player }) => player?.playerId ?? String(rank)}
            columns={{
              Rank: "rank",
              Player: ({ player }) => (player ? nameOf(player) : "erased"),
              Score: "score",
              Prize: ({ prize }) => prize && `${prize.prize + 1}: ${words(prize.status)}`,
            }}
          />
        ),
    ]}
    columns={{
      Period: "key",
      Status: "status",
      Players: "participants",
      First: ({ leader }) => leader && `${nameOf(leader.player)} (${number(leader.score)})`,
      Ends: "endsAt",
    }}
  />
);

/** Teams, countries or whatever the board is broken down by, against each other. */
const Values = ({ path }: Props) => (
  <List
    id="listLeaderboardValues"
    path={path}
    filters={["by"]}
    defaults={{ by: "total" }}
    limit={100}
    refetchInterval={5_000}
    columns={{
      Rank: "rank",
      Value: "value",
      Players: "players",
      Total: "total",
      Average: "average",
      Best: "best",
    }}
  />
);
