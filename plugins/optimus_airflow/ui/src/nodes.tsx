// Nodes as bars of what each job holds of them, what others hold, and what is free: one bar for each resource.
import type { Node } from "./api";
import { Badge, Box, Flex, Text } from "./chakra";
import { amount } from "./format";

const SHADES = ["blue.500", "green.500", "orange.500", "purple.500", "teal.500", "pink.500"];
const OTHERS = "not of Optimus";
const MOST = 60;

/** Returns what of a node is drawn: cores, memory, and the devices that it has. */
export const drawn = (node: Node): string[] => [
  "cpu", "memory", ...Object.keys(node.allocatable).filter((name) => name.includes("/") && (node.allocatable[name] ?? 0) > 0).sort(),
].filter((name) => name in node.allocatable);

const Bar = ({ node, resource, shade }: { node: Node; resource: string; shade: (job: string) => string }) => {
  const all = node.allocatable[resource] ?? 0;
  const held = [...Object.entries(node.jobs), [OTHERS, node.others] as const]
    .map(([job, amounts]): [string, number] => [job, amounts[resource] ?? 0])
    .filter(([, value]) => value > 0);
  const free = Math.max(0, all - held.reduce((sum, [, value]) => sum + value, 0));
  return (
    <Box my={1}>
      <Flex height="12px" borderWidth="1px" aria-hidden="true">
        {held.map(([job, value]) => (
          <Box key={job} bg={shade(job)} borderRightWidth="1px" title={job} style={{ width: `${all ? (100 * value) / all : 0}%` }} />
        ))}
      </Flex>
      <Text fontSize="sm" overflowWrap="anywhere">
        {[...held.map(([job, value]) => `${job}: ${amount(resource, value)}`), `free: ${amount(resource, free)}`].join(" · ")}
      </Text>
    </Box>
  );
};

export const Nodes = ({ nodes }: { nodes: Node[] }) => {
  const jobs = [...new Set(nodes.flatMap((node) => Object.keys(node.jobs)))];
  const shade = (job: string) => (job === OTHERS ? "gray.500" : SHADES[jobs.indexOf(job) % SHADES.length] ?? "gray.500");
  return (
    <>
      {nodes.slice(0, MOST).map((node) => (
        <Box key={node.name} my={2}>
          <Text fontWeight="bold">{node.name} {!node.ready && <Badge colorPalette="red">not ready</Badge>}</Text>
          {drawn(node).map((resource) => <Bar key={resource} node={node} resource={resource} shade={shade} />)}
        </Box>
      ))}
      {nodes.length > MOST && <Text color="fg.muted">{nodes.length - MOST} further nodes are not shown.</Text>}
    </>
  );
};
