# The first GPU's DMA engine copies through the last GPU's BAR1 and touches an address that belongs to nobody.
for last in $gpus; do :; done
first=${gpus%%
*}
for g in $first $last; do
	setpci -s "$g" COMMAND=0006:0006
done
mkdir -p /out/fault
dma "$first" copy "$last" >/out/fault/copy.txt
sleep 5.2 # AMD-Vi logs at most ten events in five seconds
dma "$first" read 0x712345000
sleep 0.3
look fault
