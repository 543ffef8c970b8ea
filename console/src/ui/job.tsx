import { Group, Progress, Stack, Text } from "@mantine/core";
import { type ReactNode, useState } from "react";
import { download } from "../api/client.ts";
import { tellError, useAct, useAny, useApi } from "../api/hooks.ts";
import { ErrorNote, press, Status } from "./page.tsx";

const OVER = new Set(["SUCCEEDED", "FAILED", "CANCELLED"]);

/** How far long work is, until it ends. */
export const JobProgress = (props: {
  id: string;
  title: string;
  /** Shows the result when it is there. */
  result?: ((result: any) => ReactNode) | undefined;
}) => {
  const { id, title } = props;
  const [isOver, setOver] = useState(false);
  const job = useApi("getJob", { path: { jobId: id } }, { refetchInterval: isOver ? false : 1_000 });
  const cancel = useAct("cancelJob");
  const { data } = job;
  const isDone = data?.status === "SUCCEEDED";
  const result = useAny("getJobResult", { path: { jobId: id } }, { enabled: isDone && !!props.result });
  if (data && OVER.has(data.status) !== isOver) setOver(OVER.has(data.status));
  if (!data) return job.error ? <ErrorNote error={job.error} /> : <Progress value={0} aria-label={title} />;
  const save = () =>
    download("getJobResult", `${title.toLowerCase().replaceAll(" ", "-")}.json`, { path: { jobId: id } });
  return (
    <Stack gap={4}>
      <Group justify="space-between">
        <Text>{title}</Text>
        <Status value={data.status} />
      </Group>
      <Progress
        value={data.progress}
        animated={!isOver}
        aria-label={title}
        color={data.status === "FAILED" ? "red" : "teal"}
      />
      {data.error && <Text c="var(--mantine-color-error)">{data.error}</Text>}
      {result.data && props.result?.(result.data)}
      <Group gap="xs">
        {!isOver && press("Cancel", () => cancel.mutate({ path: { jobId: id } }))}
        {isDone && press("Save the result", () => void save().catch(tellError))}
      </Group>
    </Stack>
  );
};
