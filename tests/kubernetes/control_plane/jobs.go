package main

import (
	"context"
	"os/signal"
	"syscall"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/kubernetes/pkg/controller/job"
)

// Jobs that are worked on at the same time.
const jobWorkers = 2

// runJobs makes pods for Jobs, as kube-controller-manager does: it is that program's controller, alone.
func runJobs(kubeconfig string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	informers := informers.NewSharedInformerFactory(client, 0)
	controller, err := job.NewController(
		ctx, client, informers.Core().V1().Pods(), informers.Batch().V1().Jobs(), nil, nil,
	)
	if err != nil {
		return err
	}
	informers.Start(ctx.Done())
	controller.Run(ctx, jobWorkers)
	return nil
}
