// Sizes drawn over time: of all jobs of a cluster under each other, and of one job with what happened to it.
import type { ReactNode } from "react";

import type { Happening, Held, Generation, JobSize } from "./api";
import { Box, Flex, Text } from "./chakra";
import { count, size } from "./format";
import { legend, marks, type Span, spans } from "./time";

const Strip = ({ name, told, children, height = 32 }: { name: string; told: string; children: ReactNode; height?: number }) => (
  <Flex direction={{ base: "column", md: "row" }} gap={{ base: 0, md: 2 }} my={1} align={{ md: "flex-end" }}>
    <Text width={{ base: "100%", md: "14rem" }} flexShrink={0} truncate fontSize="sm" title={name}>{name}</Text>
    <Box position="relative" flex={{ md: "1" }} height={`${height}px`} borderBottomWidth="1px" overflow="hidden" role="img" aria-label={told}>
      {children}
    </Box>
  </Flex>
);

const Drawn = ({ span }: { span: Span }) => (
  <Box position="absolute" bottom="0" bg="bg.emphasized" borderWidth="1px" borderColor="border.emphasized" fontSize="xs" lineHeight="1.2" overflow="hidden" whiteSpace="nowrap" px="2px" title={span.told}
    style={{ left: `${span.left}%`, width: `max(2px, ${span.width}%)`, height: `${Math.max(12, 100 * span.share)}%` }}>
    {span.text}
  </Box>
);

const Axis = ({ from, to }: { from: number; to: number }) => (
  <Flex justify="space-between" fontSize="xs" color="fg.muted" pl={{ base: 0, md: "14.5rem" }}>
    <span>{new Date(from).toLocaleString()}</span><span>{new Date(to).toLocaleTimeString()}</span>
  </Flex>
);

const most = (held: Held[]) => Math.max(1, ...held.map((each) => each.servers + each.workers));

/** One strip per job on one line of time: who grew when others shrank. */
export const ClusterTimeline = ({ sizes, hours }: { sizes: JobSize[]; hours: number }) => {
  if (sizes.length === 0) return <Text color="fg.muted">No job has held a size in the last {hours} hours.</Text>;
  const to = Date.now();
  const jobs = new Map<string, JobSize[]>();
  for (const each of sizes) jobs.set(each.name, [...(jobs.get(each.name) ?? []), each]);
  const first = Math.min(...sizes.map((each) => (each.starting_at === null ? to : new Date(each.starting_at).getTime())));
  const from = Math.max(to - hours * 3_600_000, first);
  return (
    <Box my={2}>
      {[...jobs].map(([name, held]) => {
        const last = held[held.length - 1] as JobSize;
        return (
          <Strip key={name} name={`${last.job} (${last.job_state})`} told={`${last.job}: ${count(held.length, "size")}, the last ${size(last)}`}>
            {spans(held, from, to, most(sizes)).map((span, i) => <Drawn key={i} span={span} />)}
          </Strip>
        );
      })}
      <Axis from={from} to={to} />
      <Text fontSize="sm" color="fg.muted">Heights are replicas: workers, or servers+workers. All jobs share the line of time.</Text>
    </Box>
  );
};

const asAttempts = (held: Generation[]): Held[] =>
  [...new Set(held.map((each) => each.attempt))].map((number) => {
    const own = held.filter((each) => each.attempt === number && each.starting_at !== null);
    const last = own[own.length - 1];
    return {
      number, state: "", servers: 0, workers: number, why: `attempt ${number}`, ended_by: "",
      starting_at: own[0]?.starting_at ?? null, gone_at: last?.gone_at ?? null,
    };
  });

/** The generations of a job, the attempts that they belong to, and what happened: each kind with a sign of its own. */
export const JobTimeline = ({ generations, events }: { generations: Generation[]; events: Happening[] }) => {
  const held = generations.filter((each) => each.starting_at !== null);
  const [first, last] = [held[0], held[held.length - 1]];
  if (first?.starting_at == null || last === undefined) return <Text color="fg.muted">No replica has been started yet.</Text>;
  const from = new Date(first.starting_at).getTime();
  const to = last.gone_at === null ? Date.now() : new Date(last.gone_at).getTime();
  const attempts = asAttempts(held);
  const signs = legend(events);
  return (
    <Box my={2}>
      <Strip name="Attempts" height={18} told={count(attempts.length, "attempt")}>
        {spans(attempts, from, to, 1).map((span, i) => <Drawn key={i} span={{ ...span, share: 1 }} />)}
      </Strip>
      <Strip name="Sizes" height={48} told={`${count(held.length, "generation")}, the last ${size(last)}`}>
        {spans(held, from, to, most(held)).map((span, i) => <Drawn key={i} span={span} />)}
      </Strip>
      <Strip name="What happened" height={18} told={signs.join(", ") || "nothing of note"}>
        {marks(events, from, to).map((mark, i) => (
          <Box key={i} position="absolute" fontSize="sm" lineHeight="1" title={mark.told} style={{ left: `min(${mark.left}%, calc(100% - 1em))` }}>{mark.sign}</Box>
        ))}
      </Strip>
      <Axis from={from} to={to} />
      <Text fontSize="sm" color="fg.muted">Heights are replicas: workers, or servers+workers. {signs.join(" · ")}</Text>
    </Box>
  );
};
