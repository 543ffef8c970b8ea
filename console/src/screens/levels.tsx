import { Button, Grid, Modal, Stack } from "@mantine/core";
import { useState } from "react";
import { call } from "../api/client.ts";
import { useApi } from "../api/hooks.ts";
import { useCan } from "../api/session.ts";
import { number, words } from "../format.ts";
import { Bars } from "../ui/chart.tsx";
import { OperationForm } from "../ui/form.tsx";
import { JobProgress } from "../ui/job.tsx";
import { ErrorNote, Loaded } from "../ui/page.tsx";
import { Json, Section } from "../ui/small.tsx";
import { List, PlainTable } from "../ui/table.tsx";
import { useSending } from "../ui/sending.ts";

export const Curve = () => {
  const curve = useApi("getLevelCurve");
  const can = useCan();
  return (
    <Loaded query={curve}>
      {(data) => (
        <Grid>
          <Grid.Col span={{ base: 12, md: 5 }}>
            {can("putLevelCurve") ? (
              <CurveForm curve={data} key={data.version} />
            ) : (
              <Json value={data.params} />
            )}
          </Grid.Col>
          <Grid.Col span={{ base: 12, md: 7 }}>
            <Section title={`XP for each of ${number(data.maxLevel)} levels`}>
              <PlainTable
                name="Levels"
                rows={data.thresholds.slice(0, 100).map((xp, index) => ({
                  level: index + 1,
                  xp,
                  more: xp - (data.thresholds[index - 1] ?? 0),
                }))}
                columns={{ Level: "level", "From XP": "xp", "More than the one before": "more" }}
              />
            </Section>
          </Grid.Col>
        </Grid>
      )}
    </Loaded>
  );
};

const CurveForm = ({ curve }: { curve: { type: string; params: unknown } }) => {
  const initial = { type: curve.type, params: curve.params };
  const [value, setValue] = useState<any>(initial);
  const [job, setJob] = useState<string>();
  const [preview, setPreview] = useState<{ level: number; players: number }[]>();
  const { error, isBusy, send } = useSending();
  const look = send(async () => {
    const { recalculate: _later, ...body } = value;
    setPreview((await call("previewLevelCurve", { body })).distribution);
  });
  return (
    <Stack>
      <OperationForm
        id="putLevelCurve"
        initial={initial}
        onChange={setValue}
        onDone={({ job: started }) => started && setJob(started.id)}
      >
        <Button variant="default" onClick={() => look()} loading={isBusy}>
          Where would players be?
        </Button>
      </OperationForm>
      <ErrorNote error={error} />
      {job && <JobProgress id={job} title="Levels of all players" />}
      <Modal opened={preview !== undefined} onClose={() => setPreview(undefined)} title="Players by level">
        <Bars
          rows={(preview ?? []).map(({ level, players }) => ({ name: `Level ${level}`, value: players }))}
        />
      </Modal>
    </Stack>
  );
};

export const EventTypes = () => (
  <List
    id="listEventTypes"
    name="Event types"
    filters={["search", "enforcement"]}
    keyOf={({ name }) => name}
    empty="No events have come yet"
    hint="Each type shows up with its properties as soon as one comes."
    columns={{
      Name: "name",
      Events: "total",
      Properties: ({ properties }) => properties.map(({ path }: any) => path).join(", "),
      Schema: ({ schema, enforcement }) => schema && words(enforcement),
      Last: "lastSeenAt",
    }}
    wide={["Properties"]}
    dialog={[({ name }) => name, (type, close) => <EventType type={type} onDone={close} />]}
  />
);

const EventType = ({ type, onDone }: { type: any; onDone: () => void }) => {
  const can = useCan();
  return (
    <Stack>
      <PlainTable
        name="Properties"
        rows={type.properties as any[]}
        keyOf={({ path }) => path}
        columns={{
          Property: "path",
          Types: "types",
          "For example": ({ samples }) => samples.map((one: unknown) => JSON.stringify(one)).join(", "),
        }}
      />
      {can("putEventType") && (
        <OperationForm
          id="putEventType"
          path={{ name: type.name }}
          initial={{ schema: type.schema ?? undefined, enforcement: type.enforcement }}
          onDone={onDone}
        />
      )}
    </Stack>
  );
};
